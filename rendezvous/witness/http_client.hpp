// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <string>

namespace ddprun::witness {

struct HttpAnswer {
    int status = 0;
    std::string body;
    /// This machine's address on the way there, numeric.
    std::string local_address;
};

/// One POST of JSON over a connection of its own, within limits::http_request_timeout (but for a
/// resolver that hangs). Everything of Beast is in its source file.
boost::asio::awaitable<Result<HttpAnswer>> http_post(
    boost::asio::io_context& io, Endpoint server, std::string path, std::string body);

}  // namespace ddprun::witness
