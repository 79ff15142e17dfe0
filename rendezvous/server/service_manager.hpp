// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/server/activation.hpp"

#include <string>
#include <string_view>

namespace ddprun::server {

/// Returns the sockets that were passed to this process (activation.hpp), and removes the
/// variables, since no child must get them. Requires: no other thread runs yet.
std::variant<Activation, std::string> take_activation();

/// Sends "READY=1" or "STOPPING=1" to the manager's socket; without one it does nothing. A failure
/// is logged, since the manager then never gets the notification.
void notify_manager(const std::string& socket, std::string_view state);

}  // namespace ddprun::server
