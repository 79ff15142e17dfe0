// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/pages.hpp"
#include "rendezvous/server/server_secrets.hpp"
#include "rendezvous/server/unproved_callers.hpp"

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>

namespace ddprun::server {

/// Answers one request and closes. Reading its head and writing the answer may each take
/// `limits::http_timeout`. `first_bytes` have already been read. `pages` and `secrets`
/// (page_access.hpp) belong to the thread of the socket and must outlive the returned coroutine.
/// `place`: where the connection is counted; null if it is not.
boost::asio::awaitable<void> serve_http(
    net::Tcp::socket socket,
    std::string first_bytes,
    Pages& pages,
    const ServerSecrets& secrets,
    std::shared_ptr<UnprovedPlace> place);

}  // namespace ddprun::server
