// SPDX-License-Identifier: Apache-2.0
// Callers of all kinds on the rendezvous port. The server runs in this process.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/interfaces.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "rendezvous/tls/session.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using namespace std::string_view_literals;
using server::ListenOn;
using server::RendezvousServer;

/// A server on a free loopback port.
struct Served {
    explicit Served(Duration handshake_timeout = limits::handshake_timeout)
        : server(
              {.listen = {ListenOn::Scope::loopback, "", 0},
               .version = "1.2.3",
               .handshake_timeout = handshake_timeout}),
          port(*server.start()) {}

    std::string get(const std::string& target) const {
        return RawClient(port).say("GET " + target + " HTTP/1.1\r\n\r\n").hear_to_the_end();
    }
    /// The value of a metric, read from outside.
    std::string metric(const std::string& name) const {
        const auto text = get("/metrics");
        const auto at = text.find("\n" + name + " ");
        if (at == std::string::npos) return "";
        const auto begin = at + name.size() + 2;
        return text.substr(begin, text.find('\n', begin) - begin);
    }

    RendezvousServer server;
    std::uint16_t port;
};

std::string frame(std::string_view json) {
    const auto size = static_cast<std::uint32_t>(json.size());
    std::string bytes;
    for (const int shift : {24, 16, 8, 0})
        bytes += static_cast<char>(size >> shift & 0xff);
    return bytes += json;
}

template <class Message>
bool is(const control::ServerMessage& message) {
    return std::holds_alternative<Message>(message);
}

std::string error_of(RawClient& client) {
    const auto message = client.hear_message();
    const auto* error = std::get_if<control::ProtocolError>(&message);
    return error == nullptr ? "" : error->reason;
}

constexpr auto validate_and_ping = "\0\xCE\xF7\x85\x3C\x0D\x01\x02\x03\x04"sv;
constexpr auto pong = "\x01\x02\x03\x04"sv;

std::string little_endian(std::uint64_t number) {
    std::string bytes;
    for (int i = 0; i < 8; ++i, number >>= 8)
        bytes += static_cast<char>(number & 0xff);
    return bytes;
}

/// This process's descriptor of the accepted end of a client's connection.
int accepted_end(const RawClient& client) {
    for (int descriptor = 0; descriptor < 1024; ++descriptor) {
        sockaddr_in peer{};
        socklen_t size = sizeof peer;
        if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
        const auto port = ":" + std::to_string(ntohs(peer.sin_port));
        if (peer.sin_family == AF_INET && client.socket_addr().ends_with(port)) return descriptor;
    }
    return -1;
}

/// A server that drains on another thread, for as long as its callers need.
struct Draining {
    Draining()
        : server(std::make_unique<RendezvousServer>(RendezvousServer::Options{
              .listen = {ListenOn::Scope::loopback, "", 0}, .drain_timeout = fact_timeout})),
          port(*server->start()) {}

    void begin() {
        done = std::async(std::launch::async, [this] { server->drain(); });
        CHECK(holds_within(fact_timeout, [&] { return !RawClient::can_connect(port); }));
    }
    bool is_done() const { return done.wait_for(0s) == std::future_status::ready; }
    void wait() { CHECK(done.wait_for(fact_timeout) == std::future_status::ready); }

    std::unique_ptr<RendezvousServer> server;
    std::uint16_t port;
    std::future<void> done;
};

}  // namespace

TEST_CASE("garbage on the rendezvous port is closed and counted, and nothing else changes") {
    Served served;
    const auto garbage = {
        "SSH-2.0-OpenSSH_9.2\r\n"sv,
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"sv,
        "\xff\xff\xff\xff"sv,
        "\x03\x05\0\0\0\0\0\0\0init/\x01\0\0\0\0\0\0\0"sv,
        "\0\x3C\x85\xF7\xCE"sv,
        "DDPRUN/no number\n"sv,
    };

    for (const auto bytes : garbage) {
        // TLS gets an alert that the server has none; other callers get only the end.
        const auto answer = bytes[0] == '\x16' ? tls::no_encryption_here : ""sv;
        CHECK(RawClient(served.port).say(bytes).hear_to_the_end() == answer);
    }

    CHECK(served.metric("ddprun_rejected_total") == std::to_string(garbage.size()));
    CHECK(served.get("/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_CASE("a server with a secret closes the oldest silent caller of a flood, and answers") {
    constexpr std::size_t most = 8;
    RendezvousServer server(
        {.listen = {ListenOn::Scope::loopback, "", 0},
         .handshake_timeout = 1h,
         .most_unproved_callers = most,
         .secrets = tls::SecretSource{"test", {}, {tls::Secret{std::string(43, 'A')}}}});
    const auto port = *server.start();
    std::vector<std::unique_ptr<RawClient>> callers;
    for (std::size_t i = 0; i < most; ++i)
        callers.push_back(std::make_unique<RawClient>(port));
    // At first the newcomer is closed: the others had no time to send anything.
    CHECK(holds_within(fact_timeout, [&] {
        return RawClient(port)
            .say("GET /healthz HTTP/1.1\r\n\r\n")
            .hear_to_the_end()
            .starts_with("HTTP/1.1 200");
    }));
    // Without the bound it would be silent for an hour.
    CHECK(callers.front()->hear_to_the_end().empty());
}

TEST_CASE("a caller that goes before it has sent anything is no event") {
    Served served;

    { RawClient client(served.port); }
    RawClient(served.port).end_of_speech();

    CHECK(served.metric("ddprun_rejected_total") == "0");
}

TEST_CASE("a caller without a preamble within the handshake deadline is closed") {
    // Long enough for bytes that this test sends in time, even on a busy machine.
    Served served(4s);
    RawClient silent(served.port);
    RawClient half_c10d(served.port);
    half_c10d.say("\0\xCE"sv);
    RawClient half_preamble(served.port);
    half_preamble.say("DDPRUN/");
    RawClient no_join(served.port);
    no_join.say("DDPRUN/1\n");

    CHECK(silent.hear_to_the_end() == "");
    CHECK(half_c10d.hear_to_the_end() == "");
    CHECK(half_preamble.hear_to_the_end() == "");
    CHECK(is<control::Hello>(no_join.hear_message()));
    CHECK(no_join.hear_to_the_end() == "");
    CHECK(served.metric("ddprun_rejected_total") == "3");
}

TEST_CASE("hello comes at once, also to a preamble in pieces") {
    Served served;
    RawClient client(served.port);

    for (const char byte : "DDPRUN/1\n"sv)
        client.say({&byte, 1});

    CHECK(client.hear_message() == control::ServerMessage{control::Hello{{1, 2}}});
}

TEST_CASE("another protocol version is refused with both numbers") {
    Served served;
    RawClient client(served.port);

    client.say("DDPRUN/7\n");
    const auto answer = client.hear_message();

    REQUIRE(is<control::Refused>(answer));
    const auto& reason = std::get<control::Refused>(answer).reason;
    CHECK(reason.find("version 1") != std::string::npos);
    CHECK(reason.find("version 7") != std::string::npos);
    CHECK(client.hear_to_the_end() == "");
}

TEST_CASE("a frame that is not understood is answered with the reason and the end") {
    Served served;
    const std::string too_long{"\x00\x01\x00\x01{", 5};
    const auto deep =
        "{\"type\":\"leave\",\"reason\":" + std::string(20, '[') + std::string(20, ']') + "}";
    const auto big_join =
        "{\"type\":\"join\",\"run_id\":\"" + std::string(limits::max_join_frame_bytes, 'x') + "\"}";
    const std::vector<std::string> frames = {
        too_long,
        frame("no json"),
        frame("{}"),
        frame("{\"type\":\"dance\"}"),
        frame("{\"type\":\"join\"}"),
        frame(deep),
        frame(big_join),
        frame(""),
    };

    for (const auto& bytes : frames) {
        CAPTURE(bytes.substr(0, 40));
        RawClient client(served.port);
        client.say("DDPRUN/1\n").say(bytes).say("and more that is not read");
        REQUIRE(is<control::Hello>(client.hear_message()));
        CHECK(error_of(client) != "");
        CHECK(client.hear_to_the_end() == "");
    }
    // The client may see the end before the server has counted it.
    CHECK(holds_within(fact_timeout, [&] { return served.metric("ddprun_agents") == "0"; }));
}

TEST_CASE("an error is also sent to an agent that has stopped sending") {
    Served served;
    RawClient client(served.port);

    client.say("DDPRUN/1\n" + frame("no json"));
    client.end_of_speech();

    CHECK(is<control::Hello>(client.hear_message()));
    CHECK(error_of(client) != "");
}

TEST_CASE("the status pages answer a browser") {
    Served served;

    CHECK(served.get("/healthz").ends_with("\r\n\r\nok\n"));
    const auto status = served.get("/status");
    CHECK(status.find("Content-Type: application/json\r\n") != std::string::npos);
    CHECK(status.find("\"version\": \"1.2.3\"") != std::string::npos);
    CHECK(status.find("\"jobs\": []") != std::string::npos);
    CHECK(served.get("/nothing").starts_with("HTTP/1.1 404 "));
    CHECK(served.get("/status?job=unknown").starts_with("HTTP/1.1 404 "));
}

TEST_CASE("HTTP that no page answers gets its status code and the end") {
    Served served;
    const auto ask = [&](std::string_view bytes) {
        return RawClient(served.port).say(bytes).hear_to_the_end();
    };

    CHECK(
        ask("POST /status HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello").starts_with("HTTP/1.1 405"));
    CHECK(ask("GET /status\r\n\r\n").starts_with("HTTP/1.1 400"));
    CHECK(ask("GET / HTTP/1.1\r\n" + std::string(limits::max_http_header_bytes, 'x'))
              .starts_with("HTTP/1.1 400"));
    const auto head = ask("HEAD /healthz HTTP/1.1\r\n\r\n");
    CHECK(head.starts_with("HTTP/1.1 200"));
    CHECK(head.ends_with("\r\n\r\n"));
    CHECK(head.find("Content-Length: 3\r\n") != std::string::npos);
}

TEST_CASE("one answer per connection, however many requests come at once") {
    Served served;

    const auto text = RawClient(served.port)
                          .say("GET /healthz HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n")
                          .hear_to_the_end();

    CHECK(text.find("HTTP/1.1", 1) == std::string::npos);
}

TEST_CASE("a PyTorch store client is served on the same port, byte by byte too") {
    Served served;
    const auto set_a = "\x01\x01\0\0\0\0\0\0\0a\x01\0\0\0\0\0\0\0v"sv;
    const auto get_a = "\x03\x01\0\0\0\0\0\0\0a"sv;

    RawClient writer(served.port);
    writer.say(validate_and_ping);
    CHECK(writer.hear(4) == "\x01\x02\x03\x04");
    writer.say(set_a).say(validate_and_ping.substr(5));
    CHECK(writer.hear(4) == "\x01\x02\x03\x04");

    RawClient reader(served.port);
    for (const char byte : std::string{validate_and_ping} + std::string{get_a})
        reader.say({&byte, 1});
    CHECK(reader.hear(4) == "\x01\x02\x03\x04");
    CHECK(reader.hear(9) == "\x01\0\0\0\0\0\0\0v"sv);
}

TEST_CASE(
    "where PyTorch 2.1 is accepted its clients share the store and the port with all others") {
    RendezvousServer server({
        .listen = {ListenOn::Scope::loopback, "", 0},
        .accepted = wire::Accepted::legacy_too,
    });
    const auto port = *server.start();
    const auto key = little_endian(2) + "/k";
    const auto value = little_endian(1) + "v";

    // In the older protocol SET begins like VALIDATE, and GETNUMKEYS is one byte.
    RawClient older(port);
    for (const char c : "\0"s + key + value)
        older.say({&c, 1});
    CHECK(older.say("\x02" + key).hear(9) == value);
    CHECK(RawClient(port).say("\x06").hear(8) == little_endian(1));
    RawClient current(port);
    CHECK(
        current.say(std::string{validate_and_ping} + "\x03" + key).hear(13) ==
        std::string{pong} + value);

    CHECK(is<control::Hello>(RawClient(port).say("DDPRUN/1\n").hear_message()));
    CHECK(RawClient(port)
              .say("GET /healthz HTTP/1.1\r\n\r\n")
              .hear_to_the_end()
              .starts_with("HTTP/1.1 200"));
    CHECK(RawClient(port).say("\x0C" + key).hear_to_the_end() == "");
    CHECK(RawClient(port).say("\x16\x03\x01").hear_to_the_end() == tls::no_encryption_here);
}

TEST_CASE("the loopback rule listens on both loopback addresses and nowhere else") {
    Served served;

    CHECK(RawClient::can_connect(served.port, "127.0.0.1"));
    CHECK_FALSE(RawClient::can_connect(served.port, "127.0.0.2"));
    const auto own = server::interface_addresses();
    CHECK(std::find(own.begin(), own.end(), "127.0.0.1") != own.end());
    if (std::find(own.begin(), own.end(), "::1") != own.end())
        CHECK(RawClient::can_connect(served.port, "::1"));
}

TEST_CASE("a literal loopback address is listened on alone") {
    RendezvousServer server({.listen = server::listen_on("127.0.0.3", "", 0)});

    const auto port = server.start();

    REQUIRE(port.has_value());
    CHECK(RawClient::can_connect(*port, "127.0.0.3"));
    CHECK_FALSE(RawClient::can_connect(*port, "127.0.0.1"));
}

TEST_CASE("a port in use is a failure, and its holder can be named") {
    Served first;
    RendezvousServer second({.listen = {ListenOn::Scope::loopback, "", first.port}});

    const auto port = second.start();

    REQUIRE(port.has_error());
    CHECK(port.error().code == boost::system::errc::address_in_use);
    CHECK(port.error().describe().find(std::to_string(first.port)) != std::string::npos);
    const auto holder = net::listener_on_port(first.port);
    CHECK(holder.find("(pid " + std::to_string(::getpid()) + ")") != std::string::npos);
}

TEST_CASE("a stopped server is gone from its port and its callers see the end") {
    Served served;
    RawClient client(served.port);
    client.say("DDPRUN/1\n");
    REQUIRE(is<control::Hello>(client.hear_message()));
    RawClient store(served.port);
    store.say("\0\xCE\xF7\x85\x3C\x0D\x01\x02\x03\x04"sv);
    REQUIRE(store.hear(4).size() == 4);

    served.server.stop();
    served.server.stop();

    CHECK(client.hear_to_the_end() == "");
    CHECK(store.hear_to_the_end() == "");
    CHECK_FALSE(RawClient::can_connect(served.port));
}

TEST_CASE("an agent of a draining server hears the end in order, whatever it still sends") {
    Draining draining;
    auto agent = std::make_unique<RawClient>(draining.port);
    agent->say("DDPRUN/1\n");
    REQUIRE(is<control::Hello>(agent->hear_message()));

    draining.begin();

    CHECK(agent->hear_to_the_end() == "");
    agent->say_message(control::Heartbeat{1});
    agent->hear_to_the_end();
    CHECK_FALSE(agent->was_reset());
    CHECK_FALSE(draining.is_done());
    agent.reset();
    draining.wait();
}

TEST_CASE("a store client of a draining server gets whole replies and the end in order") {
    Draining draining;
    auto client = std::make_unique<RawClient>(draining.port);
    client->say(validate_and_ping);
    REQUIRE(client->hear(4) == pong);
    const std::string value(1024 * 1024, 'v');
    client->say("\x01" + little_endian(1) + "a" + little_endian(value.size()) + value);
    // More than the server buffers for one client: the last requests are not even read.
    std::string requests;
    for (int i = 0; i < 20'000; ++i)
        requests += "\x03" + little_endian(1) + "a";
    client->say(requests);
    const auto reply = little_endian(value.size()) + value;
    // The drain begins in the middle of a reply: its first byte has arrived.
    REQUIRE(client->hear(reply.size() + 1).starts_with(reply));

    draining.begin();

    const auto rest = 1 + client->hear_to_the_end().size();
    CHECK_FALSE(client->was_reset());
    CHECK(rest >= reply.size());
    CHECK(rest % reply.size() == 0);
    CHECK_FALSE(draining.is_done());
    client.reset();
    draining.wait();
}

TEST_CASE("a page that was asked for before the drain is answered, and no new caller is served") {
    Draining draining;
    auto browser = std::make_unique<RawClient>(draining.port);
    browser->say("GET /healthz HT");
    RawClient half_store(draining.port);
    half_store.say(validate_and_ping.substr(0, 2));
    CHECK(holds_within(fact_timeout, [&] {
        return accepted_end(*browser) >= 0 && accepted_end(half_store) >= 0;
    }));

    draining.begin();

    browser->say("TP/1.1\r\n\r\n");
    CHECK(browser->hear_to_the_end().ends_with("\r\n\r\nok\n"));
    CHECK_FALSE(browser->was_reset());
    half_store.say(validate_and_ping.substr(2));
    CHECK(half_store.hear_to_the_end() == "");
    browser.reset();
    draining.wait();
}

TEST_CASE("a caller that stays silent delays the end of a server by its limit only") {
    RendezvousServer server({.listen = {ListenOn::Scope::loopback, "", 0}, .drain_timeout = 50ms});
    const auto port = server.start();
    RawClient silent(*port);
    RawClient store(*port);
    store.say(validate_and_ping);
    REQUIRE(store.hear(4) == pong);
    CHECK(holds_within(fact_timeout, [&] { return accepted_end(silent) >= 0; }));

    server.drain();

    CHECK(silent.hear_to_the_end() == "");
    CHECK(store.hear_to_the_end() == "");
    CHECK_FALSE((silent.was_reset() || store.was_reset()));
}

TEST_CASE("a server whose thread runs out of memory closes its agents and serves the next ones") {
    bool has_memory = false;
    RendezvousServer server({
        .listen = {ListenOn::Scope::loopback, "", 0},
        .on_idle =
            [&] {
                if (!std::exchange(has_memory, true)) throw std::bad_alloc{};
            },
    });
    const auto port = *server.start();
    RawClient agent(port);
    CHECK(is<control::Hello>(agent.say("DDPRUN/1\n").hear_message()));

    server.report_if_idle();

    CHECK(agent.hear_to_the_end() == "");
    CHECK(is<control::Hello>(RawClient(port).say("DDPRUN/1\n").hear_message()));
}

TEST_CASE("the kernel probes every caller, and ends those that vanished in a quarter of an hour") {
    Served served;
    RawClient agent(served.port);
    agent.say("DDPRUN/1\n");
    REQUIRE(is<control::Hello>(agent.hear_message()));
    RawClient store(served.port);
    store.say(validate_and_ping);
    REQUIRE(store.hear(4) == pong);

    for (const auto* client : {&agent, &store}) {
        const int socket = accepted_end(*client);
        REQUIRE(socket >= 0);
        const auto number = [&](int level, int option) {
            int value = -1;
            socklen_t size = sizeof value;
            ::getsockopt(socket, level, option, &value, &size);
            return value;
        };
        CHECK(number(SOL_SOCKET, SO_KEEPALIVE) == 1);
        const int idle = number(IPPROTO_TCP, TCP_KEEPIDLE);
        const int all =
            idle + number(IPPROTO_TCP, TCP_KEEPCNT) * number(IPPROTO_TCP, TCP_KEEPINTVL);
        CHECK(idle == 120);
        CHECK(all == 15 * 60);
    }
}

}  // namespace ddprun::test
