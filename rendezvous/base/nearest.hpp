// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace ddprun {

/// The candidate that `typed` most likely meant: the one with the fewest single-character edits, at
/// most a third of its length. Dashes and underscores count as equal. Of equally near candidates
/// the earlier one is chosen.
std::optional<std::string_view> nearest(
    std::string_view typed, std::span<const std::string_view> candidates);

}  // namespace ddprun
