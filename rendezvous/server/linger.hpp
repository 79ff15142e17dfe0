// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"

namespace ddprun::server {

/// Call it after the last message was written. Ends this side, reads until the peer closes too, for
/// at most `limits::flush_timeout`, then closes. A plain close with unread bytes in the socket
/// would be a reset, and a reset can overtake the last message.
boost::asio::awaitable<void> linger(net::Tcp::socket& socket);

}  // namespace ddprun::server
