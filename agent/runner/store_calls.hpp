// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/death_note.hpp"
#include "rendezvous/base/endpoint.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>

namespace ddprun::agent {

/// Connects once to the round's store: what the workers are about to do, with a clearer error when
/// it fails (wrong interface, firewall). Calls back with an empty text when it answered, else with
/// why it did not within limits::store_reachability_timeout.
void check_store(
    boost::asio::io_context& io, Endpoint store, std::function<void(std::string failure)> on_done);

/// Writes deaths into the round's store, where workers asked for notices; else adds no key. Calls
/// back when they are there, or cannot be within limits::death_notice_timeout: they help workers
/// elsewhere, and nothing depends on them. After that it goes on: with a store that is slow, and,
/// where no worker has asked yet, until one does or the store is closed.
void give_notice(boost::asio::io_context& io, DeathNote note, std::function<void()> on_done);

}  // namespace ddprun::agent
