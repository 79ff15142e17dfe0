// SPDX-License-Identifier: Apache-2.0
// The memory that agents make the coordinator's server hold. It runs in this thread.
#include "rendezvous/server/control_server.hpp"

#include "rendezvous/net/descriptors.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/wait.hpp"
#include "tests/support/failing_allocation.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::test {
namespace {

constexpr std::size_t bound = 256 * 1024;

struct Served {
    explicit Served(server::SecretsOrigin secrets = {})
        : acceptor(*net::listen(io, "127.0.0.1", 0)),
          control(
              io,
              {},
              limits::handshake_timeout,
              {{},
               [this](const std::string&, std::string reason) { rejected.push_back(reason); },
               [this] { before_round(); }},
              bound,
              std::move(secrets)) {
        // Small buffers, so that unread bytes are not held by the kernel.
        acceptor.set_option(boost::asio::socket_base::send_buffer_size(4096));
    }

    void poll() {
        io.restart();
        try {
            io.poll();
        } catch (const std::bad_alloc&) {
            control.start_over();
        }
    }
    template <class Fact>
    bool until(Fact fact) {
        return holds_within(fact_timeout, [&] {
            poll();
            return fact();
        });
    }

    std::unique_ptr<RawClient> connect() {
        auto agent = std::make_unique<RawClient>(acceptor.local_endpoint().port());
        control.adopt(acceptor.accept(), "DDPRUN/1\n");
        poll();
        return agent;
    }
    std::unique_ptr<RawClient> joined(const std::string& run_id, std::uint8_t node = 0) {
        auto agent = connect();
        agent->say(join_of(run_id, node));
        CHECK(is<control::Hello>(*agent));
        CHECK(is<control::Welcome>(*agent));
        return agent;
    }
    control::ServerMessage next_message(RawClient& agent) {
        auto heard = std::async(std::launch::async, [&] { return agent.hear_message(); });
        until([&] { return heard.wait_for(std::chrono::seconds{0}) == std::future_status::ready; });
        return heard.get();
    }
    template <class Message>
    bool is(RawClient& agent) {
        return std::holds_alternative<Message>(next_message(agent));
    }
    bool is_served(RawClient& agent) {
        agent.say(heartbeats(1));
        auto message = next_message(agent);
        // A job that waits for its second node is notified now and then.
        while (std::holds_alternative<control::Standby>(message))
            message = next_message(agent);
        return std::holds_alternative<control::HeartbeatAck>(message);
    }

    static std::string join_of(const std::string& run_id, std::uint8_t node = 0) {
        control::Join join;
        join.run_id = run_id;
        join.node.nonce = Nonce{{node}};
        join.node.host = "here";
        join.nodes = {2, 2, 0};
        join.addr = "127.0.0.1";
        join.store_port = static_cast<std::uint16_t>(20'000 + node);
        join.peer_port = static_cast<std::uint16_t>(21'000 + node);
        return control::encode(control::AgentMessage{join});
    }
    static std::string heartbeats(std::uint64_t count) {
        std::string bytes;
        for (std::uint64_t i = 1; i <= count; ++i)
            bytes += control::encode(control::AgentMessage{control::Heartbeat{i}});
        return bytes;
    }

    boost::asio::io_context io;
    net::Tcp::acceptor acceptor;
    std::vector<std::string> rejected;
    /// Called in the step that begins a round.
    std::function<void()> before_round = [] {};
    server::ControlServer control;
};

tls::Secret secret_of(char letter) {
    return tls::Secret{std::string(43, letter)};
}

tls::TenantFolder two_tenants() {
    tls::TenantFolder folder{"test", "/nonexistent", {}};
    folder.tenants = *tls::Tenants::of(
        {{"blue", {"test", {}, {secret_of('B')}}}, {"red", {"test", {}, {secret_of('R')}}}});
    return folder;
}

/// A caller that has proved this secret and then has sent these bytes.
std::unique_ptr<RawClient> proved(Served& served, char letter, const std::string& bytes) {
    auto caller = std::make_unique<RawClient>(served.acceptor.local_endpoint().port());
    auto session = tls::Session::for_client(tls::control_key(secret_of(letter)));
    caller->say(session.take_output());
    served.control.adopt_encrypted(served.acceptor.accept(), {});
    std::string plain;
    while (!session.is_established()) {
        served.until([&] { return served.io.poll() == 0; });
        REQUIRE(session.receive(caller->hear(1), plain).has_value());
    }
    session.send("DDPRUN/1\n" + bytes);
    caller->say(session.take_output());
    return caller;
}

/// The jobs that a page would show.
struct CountedJobs : server::JobPage {
    server::StatusQuery query() const override { return {}; }
    void add(const coordinator::JobStatus&) override { ++count; }
    server::HttpResponse finish(const server::ServerStatus&) override { return {}; }

    int count = 0;
};

}  // namespace

TEST_CASE("the agent that holds most is closed when all together hold too much") {
    Served served;
    const auto healthy = served.joined("healthy");
    std::vector<std::unique_ptr<RawClient>> hostile;

    SUBCASE("of messages that are not read") {
        hostile.push_back(served.joined("hostile"));
        const auto bytes = Served::heartbeats(100);
        REQUIRE(served.until([&] {
            if (served.rejected.empty()) hostile.back()->say(bytes);
            return !served.rejected.empty();
        }));
    }
    SUBCASE("of incomplete messages") {
        const std::string half = std::string("\0\0\xff\xff", 4) + std::string(60'000, ' ');
        while (served.rejected.empty()) {
            REQUIRE(hostile.size() < 10);
            hostile.push_back(served.connect());
            hostile.back()->say(half);
            const auto before = served.control.held_bytes();
            REQUIRE(served.until([&] {
                return served.control.held_bytes() >= before + half.size() ||
                       !served.rejected.empty();
            }));
        }
    }

    CHECK(served.rejected.size() == 1);
    CHECK(served.rejected.front().starts_with("all agents together hold "));
    CHECK(served.control.held_bytes() <= bound);
    CHECK(served.is_served(*healthy));
}

TEST_CASE("the tenant whose agents hold most loses one of them, and no other tenant does") {
    Served served(two_tenants());
    const auto half = [](std::size_t bytes) {
        return std::string("\0\0\xff\xff", 4) + std::string(bytes, ' ');
    };
    std::vector<std::unique_ptr<RawClient>> callers;
    const auto add = [&](char letter, std::size_t bytes) {
        const auto before = served.control.held_bytes();
        callers.push_back(proved(served, letter, half(bytes)));
        REQUIRE(served.until([&] {
            return served.control.held_bytes() >= before + bytes || !served.rejected.empty();
        }));
    };
    // The biggest of all is alone.
    add('R', 60'000);
    while (served.rejected.empty()) {
        REQUIRE(callers.size() < 20);
        add('B', 30'000);
    }
    CHECK(served.rejected.size() == 1);
    CHECK(
        served.rejected.front().find("holds most of what tenant 'blue' holds") !=
        std::string::npos);
    CHECK(served.control.held_bytes() <= bound);
}

TEST_CASE("callers without the secret are counted together, those in clear text too") {
    net::prepare_descriptors();
    Served served(tls::SecretSource{"test", {}, {tls::Secret{std::string(43, 'A')}}});
    std::vector<std::unique_ptr<RawClient>> callers;
    for (std::size_t i = 0; i <= limits::max_tls_handshakes; ++i) {
        callers.push_back(std::make_unique<RawClient>(served.acceptor.local_endpoint().port()));
        if (i % 2 == 0)
            served.control.adopt(served.acceptor.accept(), "D");
        else
            served.control.adopt_encrypted(served.acceptor.accept(), "\x16");
    }
    CHECK(served.until([&] {
        return std::count(
                   served.rejected.begin(),
                   served.rejected.end(),
                   "too many callers that have not proved the secret") == 1;
    }));
    CHECK(served.control.agent_count() <= limits::max_tls_handshakes);
}

TEST_CASE(
    "a coordinator without memory for a step starts over, and its agents bring their jobs back") {
    Served served;
    const auto first = served.joined("job", 1);
    const auto other = served.joined("other", 1);
    served.before_round = [&served] {
        served.before_round = [] {};
        throw std::bad_alloc{};
    };

    const auto second = served.joined("job", 2);

    // The step that began the round was half done: no agent may be left with a part of it.
    CHECK(served.until([&] { return served.control.agent_count() == 0; }));
    for (const auto* agent : {&first, &other, &second})
        CHECK((*agent)->hear_to_the_end() == "");
    CountedJobs page;
    served.control.add_jobs(page, coordinator::Scope::everything(), 0);
    CHECK(page.count == 0);
    CHECK(served.control.held_bytes() == 0);
    CHECK(served.rejected.empty());

    const auto first_again = served.joined("job", 1);
    const auto second_again = served.joined("job", 2);
    CHECK(served.is<control::Assignment>(*first_again));
    CHECK(served.is<control::Assignment>(*second_again));
}

TEST_CASE("memory that runs out at any point of a message ends no server") {
    std::size_t allowed = 0;
    for (bool is_over = false; !is_over; ++allowed) {
        REQUIRE(allowed < 5000);
        Served served;
        const auto agent = served.connect();
        agent->say(Served::join_of("job") + Served::heartbeats(2));
        {
            // Until the reserve is given back (base/memory_reserve.hpp).
            const FailingAllocation failing(allowed, 32 * 1024);
            for (int i = 0; i < 20; ++i)
                served.poll();
            is_over = !failing.has_failed();
        }
        const auto next = served.joined("next");
        CHECK(served.is_served(*next));
        CHECK(served.control.held_bytes() < bound);
    }
    CHECK(allowed > 10);
}

}  // namespace ddprun::test
