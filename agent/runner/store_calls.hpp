// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/death_note.hpp"
#include "rendezvous/base/endpoint.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>

namespace ddprun::agent {

/// Connects once to the round's store, as the workers are about to do, to report an error more
/// clearly (wrong interface, firewall). Calls back with an empty text if the store answered, else
/// with the reason why it did not answer within limits::store_reachability_timeout.
void check_store(
    boost::asio::io_context& io, Endpoint store, std::function<void(std::string failure)> on_done);

/// Writes deaths into the round's store, if workers requested notices; otherwise adds no key. Calls
/// back when the first attempt is over, with or without success, and at the latest after
/// limits::death_notice_timeout: this node must not wait long, since notices only help workers of
/// other nodes. The attempt to a slow store goes on after that. If no worker has requested notices,
/// attempts are repeated until a worker does or the store is closed.
void give_notice(boost::asio::io_context& io, DeathNote note, std::function<void()> on_done);

}  // namespace ddprun::agent
