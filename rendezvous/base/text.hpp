// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <string>
#include <string_view>
#include <vector>

/// Numbers as text, the same on every screen and in every log; and what every small reader of text
/// begins with.
namespace ddprun {

/// "SIGTERM"; "SIGRTMIN+3"; "signal 99" for a number without a name.
std::string signal_name(int signal);

/// "30 s", "2.5 s".
std::string seconds_text(Duration length);

/// Without the blanks around it.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

/// All between the separators, empty parts included; a text without one is one part.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace ddprun
