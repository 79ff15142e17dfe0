// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <string>

/// Words for numbers, the same on every screen and in every log.
namespace ddprun {

/// "SIGTERM"; "SIGRTMIN+3"; "signal 99" for a number without a name.
std::string signal_name(int signal);

/// "30 s", "2.5 s".
std::string seconds_text(Duration length);

}  // namespace ddprun
