// SPDX-License-Identifier: Apache-2.0
// The client with ddprun's server, and with servers that behave in other ways.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/client/blocking_client.hpp"
#include "rendezvous/client/client_error.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/wire/error.hpp"
#include "tests/interop/exercise.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/store_thread.hpp"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

using namespace ddprun;
using namespace std::chrono_literals;
using client::BlockingClient;
using client::StoreClient;
using test::from_hex;
using test::StoreThread;

namespace {

/// A server that does exactly one thing with each of its connections.
class StrangeServer {
public:
    using Behaviour = std::function<void(net::Tcp::socket&)>;

    StrangeServer(int connections, Behaviour behave)
        : acceptor_(net::listen(io_, "127.0.0.1", 0).value()),
          thread_([this, connections, behave = std::move(behave)] {
              for (int i = 0; i < connections; ++i) {
                  net::Tcp::socket socket(io_);
                  acceptor_.accept(socket);
                  behave(socket);
              }
          }) {}
    ~StrangeServer() { thread_.join(); }

    Endpoint endpoint() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }

private:
    boost::asio::io_context io_;
    net::Tcp::acceptor acceptor_;
    std::thread thread_;
};

std::string read_exactly(net::Tcp::socket& socket, std::size_t size) {
    std::string bytes(size, '\0');
    boost::asio::read(socket, boost::asio::buffer(bytes));
    return bytes;
}

void write_bytes(net::Tcp::socket& socket, const std::string& bytes) {
    boost::asio::write(socket, boost::asio::buffer(bytes));
}

/// Reads until the client has closed.
void wait_for_the_end(net::Tcp::socket& socket) {
    std::array<char, 256> bytes;
    error_code ec;
    while (!ec)
        socket.read_some(boost::asio::buffer(bytes), ec);
}

/// A reserved port that refuses connections, because nothing listens on it yet.
net::Tcp::acceptor bound(boost::asio::io_context& io) {
    net::Tcp::acceptor acceptor(io, net::Tcp::v4());
    acceptor.bind({boost::asio::ip::address_v4::loopback(), 0});
    return acceptor;
}

Endpoint endpoint_of(const net::Tcp::acceptor& acceptor) {
    return {"127.0.0.1", acceptor.local_endpoint().port()};
}

/// Answers VALIDATE and PING.
void greet(net::Tcp::socket& socket) {
    const auto greeting = read_exactly(socket, 10);
    write_bytes(socket, greeting.substr(6));
}

}  // namespace

TEST_CASE("our client does everything with our server") {
    StoreThread store;
    test::exercise(store.endpoint());
}

TEST_CASE("the greeting is what PyTorch's own client sends") {
    std::string greeting;
    {
        StrangeServer server(1, [&](auto& socket) {
            greeting = read_exactly(socket, 10);
            write_bytes(socket, greeting.substr(6));
        });
        CHECK(BlockingClient::connect(server.endpoint(), 30s).has_value());
    }
    CHECK(test::to_hex(greeting.substr(0, 6)) == "00 ce f7 85 3c 0d");
}

TEST_CASE("a server older than PING is greeted without it") {
    int connections = 0;
    StrangeServer server(2, [&](auto& socket) {
        read_exactly(socket, 5);
        read_exactly(socket, 1);
        // A server before 2.5 closes on PING, an unknown request.
        if (++connections == 1) return;
        read_exactly(socket, 8 + 8 + 5);
        write_bytes(socket, from_hex("01"));
        wait_for_the_end(socket);
    });

    CHECK(BlockingClient::connect(server.endpoint(), 30s).has_value());
}

TEST_CASE("what is no store is said to be none, at once") {
    StrangeServer server(1, [](auto& socket) { write_bytes(socket, "SSH-2.0-OpenSSH_9.2\r\n"); });

    const auto store = StoreClient::connect({server.endpoint(), 300s, false});

    CHECK(store.error().code == client::Error::not_a_store);
    CHECK(store.error().describe().find("this is not a TCPStore server") != std::string::npos);
}

TEST_CASE("an absurd length in a reply is not believed") {
    StrangeServer server(1, [](auto& socket) {
        greet(socket);
        read_exactly(socket, 1 + 8 + 2);
        write_bytes(socket, "HTTP/1.1 400 Bad Request\r\n\r\n");
        wait_for_the_end(socket);
    });
    auto client = BlockingClient::connect(server.endpoint(), 30s).value();

    const auto reply = client.ask<wire::Value>(wire::Get{"/k"}, 30s);

    CHECK(reply.error().code == client::Error::not_a_store);
}

TEST_CASE("every reply has a deadline, and a client that missed one stays closed") {
    StrangeServer server(1, [](auto& socket) {
        greet(socket);
        wait_for_the_end(socket);
    });
    auto client = BlockingClient::connect(server.endpoint(), 30s).value();

    CHECK(
        client.ask<wire::Number>(wire::Add{"/c", 1}, 50ms).error().code ==
        client::Error::no_answer);
    CHECK(client.ask<wire::Number>(wire::NumKeys{}, 30s).error().code == client::Error::no_answer);
    CHECK_FALSE(client.send(wire::Set{"/k", ""}, 30s).has_value());
}

TEST_CASE("a server that has gone is an error and not a signal") {
    auto store = std::make_unique<StoreThread>();
    auto client = StoreClient::connect({store->endpoint(), 60s, false}).value();
    store.reset();

    CHECK(client.get("k").error().code == client::Error::server_closed);
    for (int i = 0; i < 3; ++i)
        CHECK(client.set("k", "v").error().code == client::Error::server_closed);
}

TEST_CASE("no listener, and a name that does not resolve, are distinguished") {
    boost::asio::io_context io;
    const auto reserved = bound(io);
    const auto refused = StoreClient::connect({endpoint_of(reserved), 100ms, false});
    CHECK(refused.error().describe().find("Connection refused") != std::string::npos);

    const auto unknown = StoreClient::connect({{"no-such-host.invalid", 1}, 100ms, false});
    CHECK(unknown.error().code == client::Error::name_not_resolved);
    CHECK(unknown.error().describe().find("no-such-host.invalid") != std::string::npos);
}

TEST_CASE("a server that comes late is waited for") {
    boost::asio::io_context io;
    auto acceptor = bound(io);
    const auto endpoint = endpoint_of(acceptor);
    std::thread late([&] {
        std::this_thread::sleep_for(100ms);
        acceptor.listen();
        net::Tcp::socket socket(io);
        acceptor.accept(socket);
        greet(socket);
    });

    CHECK(BlockingClient::connect(endpoint, 30s).has_value());
    late.join();
}

TEST_CASE("every family of a name is tried, and brackets are no part of an address") {
    boost::asio::io_context io;
    const auto has_ipv6 = net::listen(io, "::1", 0).has_value();
    StoreThread store;
    // localhost is ::1 first on most machines; the store listens on 127.0.0.1 only.
    CHECK(BlockingClient::connect({"localhost", store.port()}, 30s).has_value());
    if (!has_ipv6) return;
    const auto bracketed = BlockingClient::connect({"[::1]", store.port()}, 50ms);
    CHECK(bracketed.error().code == boost::system::errc::connection_refused);
}

TEST_CASE("what is beyond the limits is refused here and the store stays usable") {
    StoreThread store;
    auto client = StoreClient::connect({store.endpoint(), 60s, false}).value();
    const std::string long_key(limits::max_key_bytes, 'k');  // one more with the "/"

    CHECK(client.set(long_key, "").error().code == wire::Error::key_too_long);
    CHECK(
        client.set("k", std::string(limits::max_value_bytes + 1, 'v')).error().code ==
        wire::Error::value_too_long);
    CHECK(client.set(long_key.substr(1), "v").has_value());
    CHECK(client.get(long_key.substr(1)).value() == "v");
}

TEST_CASE("signals do not disturb a wait") {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before);
    StoreThread store;
    auto client = StoreClient::connect({store.endpoint(), 60s, false}).value();
    const auto waiter = ::pthread_self();
    std::atomic<bool> is_over{false};
    std::thread pest([&] {
        while (!is_over) {
            ::pthread_kill(waiter, SIGUSR1);
            std::this_thread::sleep_for(1ms);
        }
    });

    const auto start = std::chrono::steady_clock::now();
    CHECK(client.wait({"k"}, 100ms).error().code == system_code(ETIMEDOUT));
    CHECK(std::chrono::steady_clock::now() - start >= 100ms);

    is_over = true;
    pest.join();
    ::sigaction(SIGUSR1, &before, nullptr);
}
