// SPDX-License-Identifier: Apache-2.0
#include "ddprun/store.hpp"

#include "ddprun/error.hpp"
#include "tests/process/sdk/store_thread.hpp"

#include <doctest/doctest.h>

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

/// What every store does, remote or not.
void check_promises(Store store) {
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
    CHECK(store.get("c", 1s) == "two");

    auto other = store.reconnect(10s);
    std::thread later([&] { other.set("later", "now"); });
    CHECK(store.get("later", 30s) == "now");
    later.join();
}

}  // namespace

TEST_CASE("sdk: the store of a world that nobody launched lives in the process") {
    auto store = Store::connect(World{});

    check_promises(store);
    CHECK(store.local_address() == "");
}

TEST_CASE("sdk: the round's store keeps the same promises over a connection") {
    const StoreThread server;
    auto store = Store::connect(world_at(server.port()));

    check_promises(store);
    CHECK(store.local_address() == "127.0.0.1");
}

TEST_CASE("sdk: a store that goes away is PeerLost, now and for ever") {
    auto server = std::make_unique<StoreThread>();
    auto store = Store::connect(world_at(server->port()));
    store.set("a", "b");
    CHECK(store.get("a") == "b");

    server.reset();

    CHECK_THROWS_AS(store.get("a"), PeerLost);
    CHECK_THROWS_AS(store.get("a"), PeerLost);
}
