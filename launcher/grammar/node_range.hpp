// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/control/message.hpp"

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Reads `N`, `MIN:MAX` and `MIN:MAX+SPARES` (also `N+SPARES`): what `control::describe` writes. On
/// error the context is what was wrong and what is accepted, without the flag's name.
Result<control::NodeRange> parse_node_range(std::string_view text);

/// --node-unit: narrows the range to sizes that are a multiple of the unit; nodes above the largest
/// such size are spares. `range_origin`: where the range was given. The error is as above.
Result<control::NodeRange> with_unit(
    const control::NodeRange& range, const std::string& range_origin, std::string_view unit);

}  // namespace ddprun::launcher
