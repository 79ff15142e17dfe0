// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_connection.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/server/linger.hpp"

#include <boost/asio/write.hpp>

#include <array>
#include <utility>

namespace ddprun::server {
namespace http_connection {
namespace {

boost::asio::awaitable<std::string> reply_to(HttpHead head, AskStatus ask) {
    if (const auto* refusal = std::get_if<HttpRefusal>(&head))
        co_return encode(answer(*refusal), true);
    const auto& request = std::get<HttpRequest>(head);
    ServerStatus status;
    // A health check must not wait for anything.
    if (request.path != "/healthz") status = co_await ask(status_query(request));
    co_return encode(answer(request, status), request.method == HttpRequest::Method::get);
}

}  // namespace
}  // namespace http_connection

boost::asio::awaitable<void> serve_http(
    net::Tcp::socket socket, std::string first_bytes, AskStatus ask) {
    auto bytes = std::move(first_bytes);
    auto head = read_http_head(bytes);
    {
        net::Deadline deadline(
            socket.get_executor(), limits::http_timeout, [&socket] { net::close(socket); });
        std::array<char, 1024> chunk{};
        while (std::holds_alternative<HttpNeedsMore>(head)) {
            const auto [ec, size] =
                co_await socket.async_read_some(boost::asio::buffer(chunk), net::as_values);
            if (ec) co_return;
            bytes.append(chunk.data(), size);
            head = read_http_head(bytes);
        }
    }
    const auto reply = co_await http_connection::reply_to(std::move(head), std::move(ask));
    {
        net::Deadline deadline(
            socket.get_executor(), limits::http_timeout, [&socket] { net::close(socket); });
        const auto [ec, size] =
            co_await boost::asio::async_write(socket, boost::asio::buffer(reply), net::as_values);
        if (ec) co_return;
    }
    co_await linger(socket);
}

}  // namespace ddprun::server
