// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/linger.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/deadline.hpp"

#include <array>

namespace ddprun::server {

// The caller's frame owns the socket and waits for the end, so the reference cannot dangle.
boost::asio::awaitable<void> linger(net::Tcp::socket& socket) {
    error_code ec;
    socket.shutdown(net::Tcp::socket::shutdown_send, ec);
    net::Deadline deadline(
        socket.get_executor(), limits::flush_timeout, [&socket] { net::close(socket); });
    std::array<char, 1024> unread{};
    while (!ec) {
        std::size_t size = 0;
        std::tie(ec, size) =
            co_await socket.async_read_some(boost::asio::buffer(unread), net::as_values);
    }
    net::close(socket);
}

}  // namespace ddprun::server
