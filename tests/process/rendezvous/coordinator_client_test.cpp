// SPDX-License-Identifier: Apache-2.0
// The agent's end of the control connection against real and false servers.
#include "rendezvous/client/coordinator_client.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "tests/process/support/free_port.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::test {
namespace {

using client::CoordinatorClient;
using server::ListenOn;
using server::RendezvousServer;
using ConnectError = CoordinatorClient::ConnectError;

/// One connection and all calls of its hooks, on an io_context that runs only inside `until`. Its
/// time limit for a greeting is long, because a server's thread may be stopped for a moment.
struct Caller {
    explicit Caller(
        const std::string& host,
        std::uint16_t port,
        Duration greeting_timeout = fact_timeout,
        std::optional<CoordinatorClient::Security> security = std::nullopt)
        : connection(std::make_unique<CoordinatorClient>(
              io,
              Endpoint{host, port},
              CoordinatorClient::Hooks{
                  [this](int descriptor) {
                      duplicate = ::dup(descriptor);
                      if (is_early) connection->send(control::Leave{"early", 0});
                  },
                  [this](CoordinatorClient::Opened value) { opened = std::move(value); },
                  [this](control::ServerMessage message) {
                      messages.push_back(std::move(message));
                      if (ends_at_message) connection.reset();
                  },
                  [this](CoordinatorClient::Closed value) { closed = std::move(value); }},
              greeting_timeout,
              std::move(security))) {}
    ~Caller() {
        if (duplicate >= 0) ::close(duplicate);
    }

    template <class Fact>
    bool until(Fact fact) {
        return holds_within(fact_timeout, [&] {
            io.restart();
            io.run_for(std::chrono::milliseconds{5});
            return fact();
        });
    }
    bool until_opened() {
        return until([&] { return opened || closed; }) && opened;
    }
    std::optional<ConnectError> error() {
        until([&] { return closed.has_value(); });
        return closed ? std::optional{closed->error} : std::nullopt;
    }

    boost::asio::io_context io;
    bool ends_at_message = false;
    bool is_early = false;
    int duplicate = -1;
    std::optional<CoordinatorClient::Opened> opened;
    std::optional<CoordinatorClient::Closed> closed;
    std::vector<control::ServerMessage> messages;
    std::unique_ptr<CoordinatorClient> connection;
};

/// A server for one connection that sends `answer` and then reads to the end, or closes.
struct FalseServer {
    enum class Then { listens, hangs_up };

    explicit FalseServer(std::string answer, Then then = Then::listens)
        : acceptor(*net::listen(io, "127.0.0.1", 0)),
          port(acceptor.local_endpoint().port()),
          thread([this, answer = std::move(answer), then] {
              serve(answer, then);
              is_done = true;
          }) {}
    ~FalseServer() { thread.join(); }

    void serve(const std::string& answer, Then then) {
        const auto socket = acceptor.accept();
        const int descriptor = const_cast<net::Tcp::socket&>(socket).native_handle();
        char bytes[256];
        // Reads the preamble first, so that closing is no reset.
        auto size = ::recv(descriptor, bytes, sizeof bytes, 0);
        heard.assign(bytes, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        std::ignore = ::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL);
        if (then == Then::hangs_up) return;
        while ((size = ::recv(descriptor, bytes, sizeof bytes, 0)) > 0)
            heard.append(bytes, static_cast<std::size_t>(size));
    }

    boost::asio::io_context io;
    net::Tcp::acceptor acceptor;
    std::uint16_t port;
    std::string heard;
    std::atomic<bool> is_done = false;
    std::thread thread;
};

RendezvousServer::Options a_server() {
    return {.listen = {ListenOn::Scope::loopback, "", 0}};
}

std::string hello() {
    return control::encode(control::ServerMessage{control::Hello{{1}}});
}

}  // namespace

TEST_CASE("an agent connects by name, is greeted, and knows both ends") {
    RendezvousServer server(a_server());
    const auto port = *server.start();
    Caller caller("localhost", port);

    REQUIRE(caller.until_opened());

    CHECK(is_loopback(caller.opened->local_addr));
    CHECK(is_loopback(caller.opened->peer_addr));
    CHECK(caller.opened->socket_addr.rfind(':') != std::string::npos);
    CHECK(caller.duplicate >= 0);
    CHECK(caller.connection->is_open());

    caller.connection->send(control::Heartbeat{7});
    CHECK_FALSE(caller.closed.has_value());
}

TEST_CASE("the duplicate is taken before the first byte is written") {
    FalseServer server(hello());
    Caller caller("127.0.0.1", server.port);
    REQUIRE(caller.until_opened());

    // A shutdown by any holder of the duplicate ends the connection for both.
    ::shutdown(caller.duplicate, SHUT_RDWR);

    CHECK(caller.error() == ConnectError::lost);
    CHECK(caller.connection->is_open() == false);
}

TEST_CASE("the deliberate end is seen by the server although a duplicate is open") {
    auto server = std::make_unique<FalseServer>(hello());
    Caller caller("127.0.0.1", server->port);
    REQUIRE(caller.until_opened());

    caller.connection->send(control::Leave{"done", 0});
    caller.connection->end();
    CHECK(caller.until([&] { return server->is_done.load(); }));
    server->thread.join();
    server->thread = std::thread([] {});

    CHECK(server->heard.starts_with("DDPRUN/1\n"));
    CHECK(server->heard.find("done") != std::string::npos);
    CHECK_FALSE(caller.closed.has_value());
}

TEST_CASE("what is sent too early waits for the proof of the secret, and leaves in no clear text") {
    FalseServer server("");
    Caller caller(
        "127.0.0.1",
        server.port,
        fact_timeout,
        CoordinatorClient::Security{tls::control_key(tls::Secret{std::string(43, 'A')}), "test"});
    caller.is_early = true;
    REQUIRE(caller.until([&] { return caller.duplicate >= 0; }));
    caller.connection->send(control::Leave{"later", 0});
    caller.until([&] { return caller.io.poll() == 0; });
    ::shutdown(caller.duplicate, SHUT_RDWR);
    CHECK(caller.error() == ConnectError::wrong_protocol);
    caller.connection.reset();
    REQUIRE(caller.until([&] { return server.is_done.load(); }));
    CHECK(server.heard.starts_with("\x16\x03"));
    CHECK(server.heard.find("early") == std::string::npos);
    CHECK(server.heard.find("DDPRUN") == std::string::npos);
}

TEST_CASE("messages in one packet arrive in order, and a hook may end the connection") {
    std::string answer = hello();
    for (std::uint64_t seq = 1; seq <= 3; ++seq)
        answer += control::encode(control::ServerMessage{control::HeartbeatAck{seq}});

    FalseServer patient(answer);
    Caller listening("127.0.0.1", patient.port);
    CHECK(listening.until([&] { return listening.messages.size() == 3; }));
    CHECK(listening.messages.back() == control::ServerMessage{control::HeartbeatAck{3}});
    listening.connection.reset();

    FalseServer brief(answer);
    Caller leaving("127.0.0.1", brief.port);
    leaving.ends_at_message = true;
    CHECK(leaving.until([&] { return !leaving.messages.empty(); }));
    CHECK(leaving.messages.size() == 1);
    CHECK(leaving.connection == nullptr);
}

TEST_CASE("a connection whose queue is over its bound is closed") {
    RendezvousServer server(a_server());
    Caller caller("127.0.0.1", *server.start());
    REQUIRE(caller.until_opened());
    control::Failed failed;
    failed.failure.details = std::string(limits::max_free_text_bytes, 'x');

    const auto enough = limits::max_control_backlog_bytes / limits::max_free_text_bytes + 64;
    for (std::size_t i = 0; i < enough; ++i)
        caller.connection->send(failed);

    CHECK_FALSE(caller.closed.has_value());  // reported later, never from inside `send`
    CHECK_FALSE(caller.connection->is_open());
    CHECK(caller.error() == ConnectError::lost);
}

TEST_CASE("why there is no connection is reported as a code and a sentence") {
    SUBCASE("no listener") {
        const auto port = free_port();
        Caller caller("127.0.0.1", port);
        CHECK(caller.error() == ConnectError::refused);
        CHECK(caller.closed->reason.find(std::to_string(port)) != std::string::npos);
        CHECK(caller.duplicate == -1);
    }
    SUBCASE("no such name") {
        Caller caller("no-such-name.invalid", 29400);
        CHECK(caller.error() == ConnectError::unresolved);
        CHECK(caller.closed->reason.find("no-such-name.invalid") != std::string::npos);
    }
    SUBCASE("a listener that says nothing") {
        FalseServer server("");
        Caller caller("127.0.0.1", server.port, limits::connect_attempt_timeout);
        CHECK(caller.error() == ConnectError::no_answer);
    }
    SUBCASE("another protocol's server") {
        FalseServer server("HTTP/1.1 400 Bad Request\r\n\r\n");
        Caller caller("127.0.0.1", server.port);
        CHECK(caller.error() == ConnectError::wrong_protocol);
        CHECK(
            caller.closed->reason ==
            "an HTTP server answers at 127.0.0.1:" + std::to_string(server.port) + ", not ddprun");
    }
    SUBCASE("a server that closes at once") {
        FalseServer server("", FalseServer::Then::hangs_up);
        Caller caller("127.0.0.1", server.port);
        CHECK(caller.error() == ConnectError::wrong_protocol);
    }
    SUBCASE("a server of another version") {
        FalseServer server(
            control::encode(control::ServerMessage{control::Refused{"version 9 only", {}}}));
        Caller caller("127.0.0.1", server.port);
        CHECK(caller.error() == ConnectError::wrong_version);
        CHECK(caller.closed->reason == "version 9 only");
    }
    SUBCASE("a server whose greeting lacks our version") {
        FalseServer server(control::encode(control::ServerMessage{control::Hello{{3, 4}}}));
        Caller caller("127.0.0.1", server.port);
        CHECK(caller.error() == ConnectError::wrong_version);
    }
    SUBCASE("an open connection that ends") {
        FalseServer server(hello(), FalseServer::Then::hangs_up);
        Caller caller("127.0.0.1", server.port);
        CHECK(caller.error() == ConnectError::lost);
        CHECK(caller.opened.has_value());
    }
}

TEST_CASE("ending an attempt that has not succeeded calls no hook") {
    FalseServer server("", FalseServer::Then::hangs_up);
    {
        Caller never("no-such-name.invalid", 29400);
        never.connection.reset();
        never.io.run();
        CHECK_FALSE(never.closed.has_value());
    }
    RawClient(server.port).end_of_speech();
}

}  // namespace ddprun::test
