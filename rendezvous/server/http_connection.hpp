// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/http_status.hpp"

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <string>

namespace ddprun::server {

using AskStatus = std::function<boost::asio::awaitable<ServerStatus>(StatusQuery)>;

/// Answers one request and closes: `limits::http_timeout` for its head, as long again for writing
/// the answer. `first_bytes` were read already. `ask` is called at most once, on the thread of the
/// socket.
boost::asio::awaitable<void> serve_http(
    net::Tcp::socket socket, std::string first_bytes, AskStatus ask);

}  // namespace ddprun::server
