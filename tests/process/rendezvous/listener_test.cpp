// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listener.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::test {
namespace {

/// Begins to connect without waiting for it.
int caller_of(std::uint16_t port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    return socket;
}

}  // namespace

TEST_CASE("a listener asks for a long backlog and knows what it was granted") {
    boost::asio::io_context io;
    auto acceptor = *net::listen(io, "127.0.0.1", 0);
    const auto granted = net::granted_backlog(acceptor);
    REQUIRE(granted.has_value());
    CHECK(*granted > 0);
    CHECK(*granted <= limits::max_accept_backlog);

    ::listen(acceptor.native_handle(), 5);
    CHECK(net::granted_backlog(acceptor) == 5);
}

TEST_CASE("callers that the kernel dropped are reported once, with the backlog") {
    boost::asio::io_context io;
    auto acceptor = *net::listen(io, "127.0.0.1", 0);
    const auto port = acceptor.local_endpoint().port();
    // The same socket, for inspection.
    net::Tcp::acceptor watched(io, net::Tcp::v4(), ::dup(acceptor.native_handle()));
    ::listen(watched.native_handle(), 1);
    std::vector<std::string> lines;
    log::set_sink([&](std::string line) { lines.push_back(std::move(line)); });

    int accepted = 0;
    const auto listener = std::make_shared<server::Listener>(
        std::move(acceptor), [&](net::Tcp::socket) { ++accepted; });
    listener->start();
    const auto storm = [&] {
        std::vector<int> callers;
        const auto before = net::dropped_callers(watched);
        for (int i = 0; i < 8; ++i)
            callers.push_back(caller_of(port));
        CHECK(holds_within(fact_timeout, [&] { return net::dropped_callers(watched) > before; }));
        io.run_for(std::chrono::milliseconds{1});
        for (const int caller : callers)
            ::close(caller);
    };
    storm();
    storm();
    CHECK(holds_within(fact_timeout, [&] {
        io.run_for(std::chrono::milliseconds{1});
        return !lines.empty();
    }));
    listener->close();
    io.run();
    log::set_sink(nullptr);

    CHECK(accepted > 0);
    REQUIRE(lines.size() == 1);
    CHECK(lines.front().find("listener.overflowed dropped=") != std::string::npos);
    CHECK(lines.front().find("backlog=1 ") != std::string::npos);
}

}  // namespace ddprun::test
