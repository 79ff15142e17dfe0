// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_connection.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/wall_time.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/server/http_files.hpp"
#include "rendezvous/server/linger.hpp"
#include "rendezvous/server/page_access.hpp"

#include <boost/asio/write.hpp>

#include <array>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::server {
namespace http_connection {
namespace {

struct Reply {
    Page page;
    bool has_body = true;
    /// Kept until the caller has read the last byte.
    std::shared_ptr<Pages::Seat> seat;
};

Page own_page(HttpResponse response) {
    return std::make_shared<const HttpResponse>(std::move(response));
}

boost::asio::awaitable<Reply> reply_to(
    HttpHead head, const net::Tcp::socket& caller, Pages& pages, const ServerSecrets& secrets) {
    Reply reply;
    if (const auto* refusal = std::get_if<HttpRefusal>(&head)) {
        reply.page = own_page(answer(*refusal));
        co_return reply;
    }
    const auto& request = std::get<HttpRequest>(head);
    reply.has_body = request.method == HttpRequest::Method::get;
    auto file = page_file(request.path);
    if (!file && !job_page(request)) {
        // Answered at once, since a health check must not wait for anything.
        reply.page = own_page(plain_answer(request));
        co_return reply;
    }
    auto scope = readable_jobs(caller, request, secrets);
    if (const auto tenant = request.query.find("tenant"); scope && tenant != request.query.end())
        scope = scope->narrowed_to(tenant->second);
    if (!scope) {
        reply.page = own_page(members_only_answer());
        co_return reply;
    }
    if (file) {
        reply.page = own_page(std::move(*file));
        co_return reply;
    }
    reply.seat = pages.admit(net::peer_network(caller));
    if (reply.seat) reply.page = co_await pages.get(request, *scope);
    if (!reply.page) reply.page = own_page(busy_answer());
    co_return reply;
}

}  // namespace
}  // namespace http_connection

boost::asio::awaitable<void> serve_http(
    net::Tcp::socket socket,
    std::string first_bytes,
    Pages& pages,
    const ServerSecrets& secrets,
    std::shared_ptr<UnprovedPlace> place) {
    // The place may be given to another caller while this one reads slowly.
    if (place) place->close_with([&socket] { net::close(socket); });
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
    std::string known_etag;
    if (const auto* request = std::get_if<HttpRequest>(&head)) known_etag = request->known_etag;
    auto reply = co_await http_connection::reply_to(std::move(head), socket, pages, secrets);
    if (!known_etag.empty() && known_etag == reply.page->etag)
        reply.page = http_connection::own_page(unchanged_answer(*reply.page));
    const auto reply_head = encode_head(*reply.page, http_date());
    {
        net::Deadline deadline(
            socket.get_executor(), limits::http_timeout, [&socket] { net::close(socket); });
        const std::array parts{
            boost::asio::buffer(reply_head),
            reply.has_body ? boost::asio::buffer(reply.page->body) : boost::asio::const_buffer{}};
        const auto [ec, size] = co_await boost::asio::async_write(socket, parts, net::as_values);
        if (ec) co_return;
    }
    reply = {};
    co_await linger(socket);
}

}  // namespace ddprun::server
