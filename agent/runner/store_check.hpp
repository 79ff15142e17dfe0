// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace ddprun::agent
