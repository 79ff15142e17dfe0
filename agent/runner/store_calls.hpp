// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/death_note.hpp"
#include "rendezvous/base/endpoint.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>

namespace ddprun::agent {

/// Connects once to the round's store, as the workers are about to do, to report an error more
/// clearly (wrong interface, firewall). Calls back with an empty text if it answered, else with the
/// reason why it did not within limits::store_reachability_timeout.
void check_store(
    boost::asio::io_context& io, Endpoint store, std::function<void(std::string failure)> on_done);

/// Writes deaths into the round's store, if workers requested notices; otherwise adds no key. Calls
/// back when the first attempt is over, with or without success, at the latest after
/// limits::death_notice_timeout: notices only help workers of other nodes. After that it continues:
/// while a store is slow, and, if no worker has requested any, until one does or the store is
/// closed.
void give_notice(boost::asio::io_context& io, DeathNote note, std::function<void()> on_done);

}  // namespace ddprun::agent
