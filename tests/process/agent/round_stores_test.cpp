// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/round_stores.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("a node listens where its endpoint or its --local-addr says") {
    const std::vector<std::string> own{"127.0.0.1", "10.0.0.3"};
    const auto host = [&](std::string endpoint, std::string addr, int most_nodes) {
        AgentConfig config;
        config.rendezvous.endpoint.host = std::move(endpoint);
        config.join.addr = std::move(addr);
        config.join.nodes = {1, most_nodes, 0};
        return own_listen_host(config, own);
    };
    for (const int most_nodes : {1, 2}) {
        CHECK(host("localhost", "", most_nodes) == "127.0.0.1");
        CHECK(host("127.0.0.1", "", most_nodes) == "127.0.0.1");
        CHECK(host("127.0.0.5", "", most_nodes) == "127.0.0.5");
        CHECK(host("::1", "", most_nodes) == "::1");
        CHECK(host("node1", "", most_nodes).empty());
        CHECK(host("127.0.0.1", "10.0.0.3", most_nodes) == "10.0.0.3");
        CHECK(host("node1", "10.0.0.3", most_nodes) == "10.0.0.3");
        // An address of a translator in front of this machine, or a name.
        CHECK(host("node1", "203.0.113.7", most_nodes).empty());
        CHECK(host("node1", "node2", most_nodes).empty());
    }
}

TEST_CASE("with etcd on this machine the nodes of a job still reach each other") {
    AgentConfig config;
    config.rendezvous.endpoint.host = "localhost";
    config.rendezvous.election.emplace();
    config.join.nodes = {1, 2, 0};
    CHECK(own_listen_host(config, {"127.0.0.1", "10.0.0.3"}).empty());
    config.join.nodes = {1, 1, 0};
    CHECK(own_listen_host(config, {"127.0.0.1", "10.0.0.3"}) == "127.0.0.1");

    CHECK(address_for_others("10.0.0.3", {"127.0.0.1", "10.0.0.4"}) == "10.0.0.3");
    CHECK(address_for_others("127.0.1.1", {"127.0.0.1", "fe80::1", "10.0.0.4"}) == "10.0.0.4");
    CHECK(address_for_others("::1", {"127.0.0.1", "169.254.1.1"}) == "::1");
}

TEST_CASE("of a crowded range the two ports that are left are found") {
    boost::asio::io_context io;
    Random random(1);
    constexpr int count = 200;
    constexpr int left = 120;
    const std::string host = "127.0.0.1";
    const auto listen = [&](int port) {
        return net::listen(io, host, static_cast<std::uint16_t>(port));
    };
    const auto are_both_free = [&](int first) {
        return listen(first + left).has_value() && listen(first + left + 1).has_value();
    };
    const auto find_in = [&](int first) {
        std::vector<net::Tcp::acceptor> taken;
        for (int i = 0; i < count; ++i) {
            if (i == left || i == left + 1) continue;
            // A port that cannot be used belongs to another program.
            if (auto acceptor = listen(first + i)) taken.push_back(std::move(*acceptor));
        }
        const auto found = listen_in_range(
            io,
            host,
            {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(first + count - 1)},
            random);
        return found ? found->local_endpoint().port() : 0;
    };

    bool is_found = false;
    int first = 20'000;
    for (int tries = 0; !is_found; ++tries, first += count) {
        REQUIRE(tries < 5);
        while (!are_both_free(first))
            first += count;
        is_found = find_in(first) == first + left;
        // It may fail only if another program has taken one of the two ports meanwhile.
        if (!is_found) REQUIRE_FALSE(are_both_free(first));
    }
}

TEST_CASE("the endpoints' ports are never taken by this node's own listeners, nor those before") {
    AgentConfig config;
    config.first_port = 21'000;
    config.last_port = 21'005;
    config.rendezvous.endpoint.port = 21'003;
    config.rendezvous.election = ElectionPlan{VotersPlan{{{"n2", 21'001}}}};
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        boost::asio::io_context io;
        Random random(seed);
        const auto found = listen_in_range(io, "127.0.0.1", own_ports(config), random);
        REQUIRE(found.has_value());
        const auto port = found->local_endpoint().port();
        CHECK(port >= 21'004);
    }
}

TEST_CASE("without memory for one answer the stores go on") {
    boost::asio::io_context agent;
    const auto work = boost::asio::make_work_guard(agent);
    RoundStores stores(agent, "127.0.0.1", PortRange{}, wire::Accepted::current);
    stores.survey([](const server::StoreSurvey&) { throw std::bad_alloc{}; });

    std::uint16_t port = 0;
    stores.open([&](const Result<std::uint16_t>& opened) { port = opened.value(); });
    agent.run_one();
    CHECK(port != 0);
}

TEST_CASE("stores may end at any moment of their draining") {
    boost::asio::io_context agent;
    const auto work = boost::asio::make_work_guard(agent);
    for (int moment = 0; moment < 3000; ++moment) {
        std::optional<RoundStores> stores;
        stores.emplace(agent, "127.0.0.1", PortRange{}, wire::Accepted::current);
        std::uint16_t port = 0;
        stores->open([&](const Result<std::uint16_t>& opened) { port = opened.value(); });
        agent.run_one();
        stores->close(port);

        // Draining without clients takes microseconds: the times range from before its end to after
        // it.
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds{moment % 100};
        while (std::chrono::steady_clock::now() < end) {
        }
        stores.reset();
    }
}
