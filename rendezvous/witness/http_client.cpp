// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/http_client.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/tcp.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <utility>

namespace ddprun::witness {
namespace {

namespace http = boost::beast::http;
using Asked = http::request<http::string_body>;

constexpr int http_1_1 = 11;

Asked request_of(const Endpoint& server, const std::string& path, std::string body) {
    Asked request{http::verb::post, path, http_1_1, std::move(body)};
    request.set(http::field::host, server.to_string());
    request.set(http::field::content_type, "application/json");
    request.keep_alive(false);
    request.prepare_payload();
    return request;
}

}  // namespace

boost::asio::awaitable<Result<HttpAnswer>> http_post(
    boost::asio::io_context& io, Endpoint server, std::string path, std::string body) {
    const auto where = server.to_string();
    auto addresses = co_await net::resolve(server);
    if (!addresses) co_return addresses.error();
    auto connected = co_await net::connect(std::move(*addresses));
    if (!connected) co_return connected.error();
    auto socket = std::move(*connected);

    const net::Deadline deadline(
        io.get_executor(), limits::http_request_timeout, [&socket] { net::close(socket); });
    const auto failed = [&](const error_code& ec) {
        return deadline.has_passed()
                   ? Failure{boost::asio::error::timed_out, "no answer from " + where}
                   : Failure{ec, where};
    };
    const auto local = net::local_address(socket);
    const auto request = request_of(server, path, std::move(body));
    const auto [write_error, written] = co_await http::async_write(socket, request, net::as_values);
    if (write_error) co_return failed(write_error);

    boost::beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(limits::max_http_answer_bytes);
    const auto [read_error, size] =
        co_await http::async_read(socket, buffer, parser, net::as_values);
    if (read_error) co_return failed(read_error);
    auto& answer = parser.get();
    co_return HttpAnswer{static_cast<int>(answer.result_int()), std::move(answer.body()), local};
}

}  // namespace ddprun::witness
