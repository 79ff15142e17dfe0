// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace ddprun {

/// The candidate a person most likely meant by `typed`: fewest single-character edits, at most a
/// third of its length; dashes and underscores count as the same. Ties go to the earlier one.
std::optional<std::string_view> nearest(
    std::string_view typed, std::span<const std::string_view> candidates);

}  // namespace ddprun
