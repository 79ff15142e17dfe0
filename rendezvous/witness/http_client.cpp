// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/http_client.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/tls/error.hpp"

#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <sstream>
#include <string_view>
#include <utility>

namespace ddprun::witness {
namespace {

namespace http = boost::beast::http;
using Parser = http::response_parser<http::string_body>;
using Session = std::optional<tls::CertifiedSession>;

constexpr int http_1_1 = 11;

http::verb verb_of(HttpRequest::Method method) {
    switch (method) {
        case HttpRequest::Method::get: return http::verb::get;
        case HttpRequest::Method::post: return http::verb::post;
        case HttpRequest::Method::put: return http::verb::put;
    }
    contradiction("a method of no kind", __FILE__, __LINE__);
}

std::string text_of(const Endpoint& server, HttpRequest request) {
    http::request<http::string_body> message{
        verb_of(request.method), request.path, http_1_1, std::move(request.body)};
    message.set(http::field::host, server.to_string());
    message.set(http::field::accept, "application/json");
    if (request.method != HttpRequest::Method::get)
        message.set(http::field::content_type, "application/json");
    if (!request.authorization.empty())
        message.set(http::field::authorization, request.authorization);
    message.keep_alive(false);
    message.prepare_payload();
    std::ostringstream text;
    text << message;
    return text.str();
}

/// Removes the bytes that it parses from `plain`.
error_code parse(Parser& parser, std::string& plain) {
    error_code ec;
    while (!plain.empty() && !parser.is_done()) {
        const auto used = parser.put(boost::asio::buffer(plain), ec);
        plain.erase(0, used);
        if (ec == http::error::need_more) return {};
        if (ec || used == 0) break;
    }
    return ec;
}

/// Reports to the parser that no more bytes arrive, which is the regular end of an answer without a
/// stated length.
error_code parse_end(Parser& parser) {
    error_code ec = boost::asio::error::eof;
    if (parser.got_some()) parser.put_eof(ec);
    return ec;
}

/// The likely reason when the server has ended the connection; empty: unknown.
std::string guess(error_code ec, const Session& session, const Parser& parser) {
    const bool is_end = ec == boost::asio::error::eof;
    const bool is_reset =
        ec == boost::asio::error::connection_reset || ec == boost::asio::error::broken_pipe;
    if (parser.got_some() || !(is_end || (is_reset && session))) return {};
    if (!session) return " has ended the connection without an answer (perhaps it requires https)";
    if (!session->is_established())
        return " has ended the connection during the TLS handshake (perhaps it is plain http)";
    if (!session->has_own_certificate())
        return " has ended the connection without an answer (perhaps it requires a certificate of "
               "this node, cert and key)";
    return " has ended the connection without an answer";
}

/// Exchanges one request and its answer on a separate connection.
class Exchange {
public:
    Exchange(net::Tcp::socket& socket, Session session, std::string request)
        : socket_(socket),
          session_(std::move(session)),
          request_(std::move(request)) {
        parser_.eager(true);
        parser_.body_limit(limits::max_http_answer_bytes);
    }

    boost::asio::awaitable<Result<>> run(std::string where);
    http::response<http::string_body>& answer() { return parser_.get(); }

private:
    /// The bytes that can be sent now.
    std::string output();
    /// Succeeds also while the answer is incomplete.
    Result<> receive(std::string_view bytes, const std::string& where);

    net::Tcp::socket& socket_;
    Session session_;
    /// Empty once the request is sent.
    std::string request_;
    std::string plain_;
    Parser parser_;
};

std::string Exchange::output() {
    if (!session_) return std::exchange(request_, {});
    if (session_->is_established()) session_->send(std::exchange(request_, {}));
    return session_->take_output();
}

Result<> Exchange::receive(std::string_view bytes, const std::string& where) {
    Result<> received;
    if (session_)
        received = session_->receive(bytes, plain_);
    else
        plain_ += bytes;
    if (const auto ec = parse(parser_, plain_)) return Failure{ec, where};
    if (received || parser_.is_done()) return {};
    if (received.error().code != tls::Error::closed)
        return Failure{received.error().code, where + ": " + received.error().context};
    const auto ec = parse_end(parser_);
    return ec ? Failure{ec, where + guess(ec, session_, parser_)} : Result<>{};
}

boost::asio::awaitable<Result<>> Exchange::run(std::string where) {
    std::array<char, 4096> chunk{};
    Result<> received;
    while (!parser_.is_done()) {
        const auto text = output();
        // Sent even after a failure: if the server is not trusted, this is the alert about that.
        if (!text.empty()) {
            const auto [write_error, written] = co_await boost::asio::async_write(
                socket_, boost::asio::buffer(text), net::as_values);
            if (!received) co_return received;
            if (write_error)
                co_return Failure{write_error, where + guess(write_error, session_, parser_)};
        }
        if (!received) co_return received;
        const auto [read_error, size] =
            co_await socket_.async_read_some(boost::asio::buffer(chunk), net::as_values);
        if (read_error) {
            // With TLS only the server's closing message counts as an end.
            const bool is_end = read_error == boost::asio::error::eof && !session_;
            const auto ec = is_end ? parse_end(parser_) : read_error;
            if (ec) co_return Failure{ec, where + guess(ec, session_, parser_)};
            co_return Result<>{};
        }
        received = receive({chunk.data(), size}, where);
    }
    co_return received;
}

}  // namespace

boost::asio::awaitable<Result<HttpAnswer>> http_exchange(
    boost::asio::io_context& io,
    Endpoint server,
    std::optional<tls::Credentials> credentials,
    HttpRequest request) {
    const auto where = server.to_string();
    auto addresses = co_await net::resolve(server);
    if (!addresses) co_return addresses.error();
    auto connected = co_await net::connect(std::move(*addresses));
    if (!connected) co_return connected.error();
    auto socket = std::move(*connected);

    const net::Deadline deadline(
        io.get_executor(), limits::http_request_timeout, [&socket] { net::close(socket); });
    const auto local = net::local_address(socket);
    Session session;
    if (credentials) session.emplace(*credentials, server.host);
    Exchange exchange{socket, std::move(session), text_of(server, std::move(request))};
    auto done = co_await exchange.run(where);
    if (!done && deadline.has_passed())
        co_return Failure{boost::asio::error::timed_out, "no answer from " + where};
    if (!done) co_return done.error();
    auto& answer = exchange.answer();
    co_return HttpAnswer{static_cast<int>(answer.result_int()), std::move(answer.body()), local};
}

}  // namespace ddprun::witness
