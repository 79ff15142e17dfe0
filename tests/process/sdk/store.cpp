// SPDX-License-Identifier: Apache-2.0
#include "ddprun/store.hpp"

#include "ddprun/error.hpp"
#include "tests/process/sdk/store_thread.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <thread>

using namespace ddprun;
using ddprun::tests::StoreThread;
using namespace std::chrono_literals;

namespace {

World world_at(std::uint16_t port) {
    World world;
    world.world_size = 2;
    world.master_addr = "127.0.0.1";
    world.master_port = port;
    return world;
}

/// The rendezvous file that rank 0 writes into a shared folder when it has opened its store.
void publish(const test::TempDir& folder, std::uint16_t port) {
    Store::connect(world_at(port)).set("ddprun/rendezvous/token", "t");
    folder.write(
        "ddprun-rendezvous",
        "ddprun-rendezvous 1\ntoken t\nport " + std::to_string(port) +
            "\naddress 127.0.0.1\nend\n");
}

World world_of_two_in(const test::TempDir& folder, int rank) {
    return World::from(
        "file://" + folder.path().string() + "?world_size=2&rank=" + std::to_string(rank));
}

/// Checks the behaviour of every store, remote or not.
void check_store(Store store) {
    CHECK_FALSE(store.check({"a"}));
    store.set("a", std::string("x\0y", 3));
    CHECK(store.get("a") == std::string("x\0y", 3));
    CHECK(store.check({"a"}));
    CHECK_FALSE(store.check({"a", "b"}));

    CHECK(store.add("n", 2) == 2);
    CHECK(store.add("n", -5) == -3);
    CHECK(store.get("n") == "-3");

    CHECK(store.compare_set("c", "", "one") == "one");
    CHECK(store.compare_set("c", "two", "three") == "one");
    CHECK(store.compare_set("c", "one", "two") == "two");
    CHECK(store.compare_set("absent", "x", "y") == "x");
    CHECK_FALSE(store.check({"absent"}));

    CHECK(store.delete_key("a"));
    CHECK_FALSE(store.delete_key("a"));

    CHECK_THROWS_AS(store.get("never", 20ms), Timeout);
    CHECK_THROWS_AS(store.wait({"c", "never"}, 20ms), Timeout);
    CHECK(store.get("c", 30s) == "two");

    auto other = store.reconnect(10s);
    std::thread later([&] { other.set("later", "now"); });
    CHECK(store.get("later", 30s) == "now");
    later.join();
}

}  // namespace

TEST_CASE("sdk: without a launcher the store is inside the process") {
    auto store = Store::connect(World{});

    check_store(store);
    CHECK(store.local_address() == "");
}

TEST_CASE("sdk: the round's store behaves the same over a connection") {
    const StoreThread server;
    auto store = Store::connect(world_at(server.port()));

    check_store(store);
    CHECK(store.local_address() == "127.0.0.1");
}

TEST_CASE("sdk: a closed store is PeerLost, also in later calls") {
    auto server = std::make_unique<StoreThread>();
    auto store = Store::connect(world_at(server->port()));
    store.set("a", "b");
    CHECK(store.get("a") == "b");

    server.reset();

    CHECK_THROWS_AS(store.get("a"), PeerLost);
    CHECK_THROWS_AS(store.get("a"), PeerLost);
}

TEST_CASE("sdk: a store that closes while a rank joins it belongs to an earlier run") {
    const test::TempDir folder;
    std::optional<StoreThread> earlier(std::in_place);
    publish(folder, earlier->port());
    std::thread second([&] { Store::connect(world_of_two_in(folder, 1)).set("came", "1"); });
    Store::connect(world_at(earlier->port())).get("ddprun/rendezvous/rank/1");

    earlier.reset();
    auto store = Store::connect(world_of_two_in(folder, 0));

    CHECK(store.get("came") == "1");
    second.join();
}

TEST_CASE("sdk: a store found by a file may be as slow as any other") {
    const test::TempDir folder;
    StoreThread server;
    publish(folder, server.port());
    Store::connect(world_at(server.port())).set("ddprun/rendezvous/world_size", "2");
    auto store = Store::connect(world_of_two_in(folder, 1));

    // Longer than the timeout of a rendezvous attempt.
    server.pause(400ms);

    CHECK_FALSE(store.check({"a"}));
}
