// SPDX-License-Identifier: Apache-2.0
// The server's end of one control connection; the test acts as the peer.
#include "rendezvous/server/control_connection.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {
namespace {

using server::ControlConnection;

/// Both ends; the server's runs only inside `until`.
struct Pair {
    explicit Pair(
        server::ControlAccess access = {}, Duration handshake_timeout = limits::handshake_timeout)
        : acceptor(*net::listen(io, "127.0.0.1", 0)) {
        client = std::make_unique<RawClient>(acceptor.local_endpoint().port());
        connection = std::make_shared<ControlConnection>(acceptor.accept(), std::move(access));
        connection->start(
            "",
            handshake_timeout,
            {[this] { is_greeted = true; },
             [this](control::AgentMessage message) { messages.push_back(std::move(message)); },
             [this](const std::string& reason) { ended = reason; },
             {},
             {},
             {},
             [this](std::string_view request) {
                 votes.emplace_back(request);
                 return request == "bad" ? std::string{} : "answer to " + votes.back() + "\n";
             }});
    }

    template <class Fact>
    bool until(Fact fact) {
        return holds_within(fact_timeout, [&] {
            io.restart();
            io.run_for(std::chrono::milliseconds{2});
            return fact();
        });
    }
    /// The client reads this, and closes; so the connection ends.
    bool hears_at_last(const std::string& text) {
        if (!until([&] { return client->can_hear(); })) return false;
        const bool is_heard = client->hear(text.size()) == text;
        client.reset();
        return is_heard && until([&] { return ended.has_value(); });
    }
    void greet() {
        client->say("DDPRUN/1\n");
        until([&] { return is_greeted; });
    }

    boost::asio::io_context io;
    net::Tcp::acceptor acceptor;
    std::unique_ptr<RawClient> client;
    std::shared_ptr<ControlConnection> connection;
    bool is_greeted = false;
    std::vector<control::AgentMessage> messages;
    std::vector<std::string> votes;
    std::optional<std::string> ended;
};

ControlConnection::Frame frame_of(std::size_t bytes) {
    return std::make_shared<const std::string>(bytes, 'x');
}

}  // namespace

TEST_CASE("a peer that is gone without closing is detected by the kernel") {
    Pair pair;
    const auto number = [&](int level, int option) {
        int value = -1;
        socklen_t size = sizeof value;
        auto& socket = const_cast<net::Tcp::socket&>(pair.connection->socket());
        ::getsockopt(socket.native_handle(), level, option, &value, &size);
        return value;
    };
    // Probed like every accepted connection, after a quarter of an hour.
    CHECK(number(SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(number(IPPROTO_TCP, TCP_KEEPIDLE) == 120);
    CHECK(number(IPPROTO_TCP, TCP_KEEPINTVL) == 60);
    CHECK(number(IPPROTO_TCP, TCP_KEEPCNT) == 13);
    CHECK(number(IPPROTO_TCP, TCP_USER_TIMEOUT) == 0);

    // A connection whose loss only TCP detects, within half a minute.
    pair.connection->notice_lost_peer();

    CHECK(number(SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(number(IPPROTO_TCP, TCP_KEEPIDLE) == 10);
    CHECK(number(IPPROTO_TCP, TCP_KEEPINTVL) == 5);
    CHECK(number(IPPROTO_TCP, TCP_KEEPCNT) == 3);
    CHECK(number(IPPROTO_TCP, TCP_USER_TIMEOUT) == 25'000);
}

TEST_CASE("a request for a vote is one line, and its answer the last one") {
    Pair pair;
    SUBCASE("in one piece") {
        pair.client->say("ddprun-vote/1 {}\n");
    }
    SUBCASE("in single bytes, with more after it") {
        for (const char byte : std::string{"ddprun-vote/1 {}\n"}) {
            const auto held = pair.connection->held_bytes();
            pair.client->say(std::string(1, byte));
            REQUIRE(pair.until(
                [&] { return pair.connection->held_bytes() > held || !pair.votes.empty(); }));
        }
        pair.client->say("DDPRUN/1\n");
    }
    CHECK(pair.hears_at_last("answer to {}\n"));
    CHECK(*pair.ended == "a vote was answered");
    CHECK(pair.votes == std::vector<std::string>{"{}"});
    CHECK(pair.connection->begun() == ControlConnection::Begun::vote);
    CHECK_FALSE(pair.is_greeted);
}

TEST_CASE("a request for a vote that is not valid, or too long, ends the connection") {
    Pair pair;
    const auto ends = [&] { return pair.until([&] { return pair.ended.has_value(); }); };
    SUBCASE("not valid") {
        pair.client->say("ddprun-vote/1 bad\n");
        REQUIRE(ends());
        CHECK(*pair.ended == "a request for a vote is not valid");
    }
    SUBCASE("too long") {
        pair.client->say("ddprun-vote/1 " + std::string(limits::max_vote_line_bytes + 1, 'x'));
        REQUIRE(ends());
        CHECK(*pair.ended == "a request for a vote is too long");
    }
    SUBCASE("of another version") {
        pair.client->say("ddprun-vote/2 {}\n");
        REQUIRE(ends());
        CHECK(pair.ended->find("no control preamble") != std::string::npos);
    }
    CHECK(pair.client->hear_to_the_end().empty());
}

TEST_CASE("a server with a secret says so to a caller that asks for a vote in clear text") {
    server::ControlAccess access;
    access.is_refused = true;
    Pair pair(std::move(access));
    pair.client->say("ddprun-vote/1 {}\n");
    CHECK(pair.hears_at_last(
        "this job needs --rdzv-secret-file or --secure, on every node the same secret\n"));
    CHECK(pair.votes.empty());
}

TEST_CASE("a caller that does not prove the secret has less time than one that needs none") {
    server::ControlAccess access;
    SUBCASE("silent in its handshake") {
        access.session.emplace(
            tls::Session::for_server([](std::string_view) { return std::nullopt; }));
    }
    SUBCASE("silent in clear text") {
        access.is_refused = true;
    }
    Pair pair(std::move(access), std::chrono::hours{1});
    REQUIRE(pair.until([&] { return pair.ended.has_value(); }));
    CHECK(*pair.ended == "no join within the handshake deadline");
}

TEST_CASE("an incomplete record counts as what the connection holds") {
    const auto key = tls::control_key(tls::Secret{std::string(43, 'A')});
    server::ControlAccess access;
    access.session.emplace(
        tls::Session::for_server([&](std::string_view) { return std::optional{key}; }));
    Pair pair(std::move(access));
    auto client = tls::Session::for_client(key);
    std::string plain;
    pair.client->say(client.take_output());
    while (!client.is_established()) {
        pair.until([&] { return pair.io.poll() == 0; });
        REQUIRE(client.receive(pair.client->hear(1), plain).has_value());
    }
    client.send(std::string(10'000, 'x'));
    auto bytes = client.take_output();
    bytes.pop_back();
    pair.client->say(bytes);
    CHECK(pair.until([&] { return pair.connection->held_bytes() >= bytes.size() - 1'000; }));
}

TEST_CASE("a peer that does not read is ended when its queue is over the bound") {
    Pair pair;
    pair.greet();
    const auto frame = frame_of(1024 * 1024);

    int sent = 0;
    while (!pair.ended && sent < 100) {
        pair.connection->send(frame);
        ++sent;
        pair.io.restart();
        pair.io.poll();
    }

    REQUIRE(pair.ended.has_value());
    CHECK(*pair.ended == "it does not read what is sent to it");
    CHECK(pair.connection->was_over_bound());
    CHECK(sent > static_cast<int>(limits::max_control_backlog_bytes / frame->size()));
}

TEST_CASE("what was sent before the finish arrives, although the peer goes on sending") {
    Pair pair;
    pair.greet();

    pair.client->say(control::encode(control::AgentMessage{control::Heartbeat{1}}));
    REQUIRE(pair.until([&] { return pair.messages.size() == 1; }));
    pair.client->say(control::encode(control::AgentMessage{control::Heartbeat{2}}));
    pair.connection->send(std::make_shared<const std::string>(
        control::encode(control::ServerMessage{control::JobResult{}})));
    pair.connection->finish("job over");
    pair.connection->send(frame_of(10));
    pair.client->say(control::encode(control::AgentMessage{control::Heartbeat{3}}));
    pair.until([&] { return pair.io.poll() == 0; });

    CHECK(std::holds_alternative<control::Hello>(pair.client->hear_message()));
    CHECK(std::holds_alternative<control::JobResult>(pair.client->hear_message()));
    CHECK(pair.client->hear_to_the_end() == "");
    CHECK_FALSE(pair.ended.has_value());
    pair.client.reset();
    CHECK(pair.until([&] { return pair.ended.has_value(); }));
    CHECK(*pair.ended == "job over");
    CHECK(pair.messages.size() == 1);
}

TEST_CASE("the end of a connection is reported once, with its first reason") {
    Pair pair;
    pair.greet();

    pair.connection->abort("first");
    pair.connection->abort("second");
    pair.connection->finish("third");
    pair.connection->send(frame_of(10));

    CHECK_FALSE(pair.ended.has_value());
    CHECK(pair.until([&] { return pair.ended.has_value(); }));
    CHECK(*pair.ended == "first");
}

}  // namespace ddprun::test
