// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/printable.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// The beginning, with " ..." where something follows it; a character of UTF-8 is not cut.
std::string shortened(std::string_view text, std::size_t most_bytes);

/// `text` broken at spaces so that lines end before column 80, when the first one starts at
/// `indent` and the others are indented so. Words are not broken; its own newlines stay.
std::string wrapped(std::string_view text, std::size_t indent);

}  // namespace ddprun::agent
