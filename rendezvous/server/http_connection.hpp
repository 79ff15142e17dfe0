// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/pages.hpp"
#include "rendezvous/tls/secret_file.hpp"

#include <boost/asio/awaitable.hpp>

#include <string>

namespace ddprun::server {

/// Answers one request and closes: `limits::http_timeout` for its head, as long again for writing
/// the answer. `first_bytes` were read already. `pages`, and `secrets` if there are any
/// (page_access.hpp), live on the thread of the socket, longer than this.
boost::asio::awaitable<void> serve_http(
    net::Tcp::socket socket, std::string first_bytes, Pages& pages, const tls::Secrets* secrets);

}  // namespace ddprun::server
