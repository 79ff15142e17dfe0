// SPDX-License-Identifier: Apache-2.0
// Writes an agent's notices for workers of other nodes into a real store.
#include "agent/runner/store_calls.hpp"

#include "agent/plan/death_note.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/net/tcp.hpp"
#include "tests/process/support/free_port.hpp"
#include "tests/process/support/wait.hpp"
#include "tests/support/store_thread.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

const std::string key = agent::store_names::deaths("inc", 2, 1);
/// Clients add the slash themselves.
const std::string key_of_clients = key.substr(1);

/// Runs until the notice has been given or abandoned.
void give(const Endpoint& store, std::vector<int> ranks) {
    boost::asio::io_context io;
    bool is_done = false;
    agent::give_notice(io, {store, key, std::move(ranks)}, [&] {
        is_done = true;
        io.stop();  // the rest of the call is for workers that ask later
    });
    io.run();
    REQUIRE(is_done);
}

}  // namespace

TEST_CASE("a death is written where a worker asked for it, behind those of other nodes") {
    StoreThread store;
    auto client = client::StoreClient::connect({store.endpoint()}).value();
    REQUIRE(client.set(key_of_clients, std::string{agent::store_names::no_deaths}).has_value());

    // A notice is abandoned when the store hangs for a moment; giving it twice has the same effect.
    const auto says_after_notice = [&](const std::vector<int>& ranks, const std::string& deaths) {
        return holds_within(fact_timeout, [&] {
            give(store.endpoint(), ranks);
            return client.get(key_of_clients).value() == deaths;
        });
    };
    CHECK(says_after_notice({5}, "5"));
    CHECK(says_after_notice({3, 5}, "5 3"));
}

TEST_CASE("a store whose workers never asked has no key more after a death") {
    StoreThread store;
    auto client = client::StoreClient::connect({store.endpoint()}).value();

    give(store.endpoint(), {5});

    CHECK(client.num_keys().value() == 0);
}

TEST_CASE("a death is written also where a worker asks for it later") {
    StoreThread store;
    auto client = client::StoreClient::connect({store.endpoint()}).value();
    boost::asio::io_context io;
    bool has_asked = false;
    const auto ask = [&] {
        if (std::exchange(has_asked, true)) return;
        REQUIRE(client.set(key_of_clients, std::string{agent::store_names::no_deaths}).has_value());
    };

    // A notice that was abandoned because the store hung for a moment is given again.
    CHECK(holds_within(fact_timeout, [&] {
        io.restart();
        agent::give_notice(io, {store.endpoint(), key, {5}}, ask);
        io.run_for(1s);
        return has_asked && client.get(key_of_clients).value() == "5";
    }));
}

TEST_CASE("a store that accepts and never answers holds up a death notice for a moment only") {
    boost::asio::io_context io;
    const auto silent = net::listen(io, "127.0.0.1", 0).value();
    const auto start = std::chrono::steady_clock::now();

    give({"127.0.0.1", silent.local_endpoint().port()}, {5});

    CHECK(std::chrono::steady_clock::now() - start >= limits::death_notice_timeout);
}

TEST_CASE("a death notice for a store that is gone is given up at once") {
    give({"127.0.0.1", free_port()}, {5});
}

}  // namespace ddprun::test
