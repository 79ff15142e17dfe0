// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/tls/certified_session.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::witness {

struct HttpRequest {
    enum class Method : std::uint8_t { get, post, put };

    Method method = Method::post;
    std::string path;
    std::string body = {};
    /// The header field of this name; empty: none.
    std::string authorization = {};
};

struct HttpAnswer {
    int status = 0;
    std::string body;
    /// This machine's numeric address on that connection.
    std::string local_address;
};

/// Sends one request with JSON over a new connection. From the connection to the answer it takes at
/// most limits::http_request_timeout; before that, a resolver may hang for longer. With
/// `credentials` it always uses TLS. Boost.Beast is used in the source file only.
boost::asio::awaitable<Result<HttpAnswer>> http_exchange(
    boost::asio::io_context& io,
    Endpoint server,
    std::optional<tls::Credentials> credentials,
    HttpRequest request);

}  // namespace ddprun::witness
