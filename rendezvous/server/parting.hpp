// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"

namespace ddprun::server {

/// The last words have been written: ends our side and reads what still comes until the peer closes
/// too, `limits::flush_timeout` at most, then closes. A plain close with unread bytes in the
/// socket would be a reset, and a reset can overtake the last words.
boost::asio::awaitable<void> part(net::Tcp::socket& socket);

}  // namespace ddprun::server
