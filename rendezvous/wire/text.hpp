// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/message.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::wire {

/// Describes the message in one line: `SET "/k" 12 B`, `WAIT ["/a", "/b"]`, `number 3`. For traces,
/// test transcripts and failure messages; long keys and lists are cut.
std::string describe(const Request& request);
std::string describe(const Reply& reply);

/// Puts the text in double quotes, with unprintable bytes as \xNN, cut after `longest` bytes.
std::string in_quotes(std::string_view bytes, std::size_t longest = 120);

}  // namespace ddprun::wire
