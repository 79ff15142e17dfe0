// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/printable.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// The beginning of the text, followed by " ..." if it is cut; never cut inside a UTF-8 character.
std::string shortened(std::string_view text, std::size_t most_bytes);

/// `text` broken at spaces so that lines end before column 80, when the first line starts at
/// `indent` and the others are indented by as much. Words are not broken; newlines in the text
/// stay.
std::string wrapped(std::string_view text, std::size_t indent);

}  // namespace ddprun::agent
