// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/server/activation.hpp"

#include <string>
#include <string_view>

namespace ddprun::server {

/// What this process was handed (activation.hpp), and removes the variables: they are for no child.
/// Requires: no other thread runs yet.
std::variant<Activation, std::string> take_activation();

/// Sends "READY=1" or "STOPPING=1" to the manager's socket; without one nothing happens. A failure
/// is logged: the manager then waits for it in vain.
void notify_manager(const std::string& socket, std::string_view state);

}  // namespace ddprun::server
