// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/output_plan.hpp"
#include "rendezvous/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// The value of --wrap as text: "RANKS: command …".
struct Wrap {
    std::vector<agent::RankRange> ranks;
    /// Not empty, and the first word is not.
    std::vector<std::string> words;
};

/// `RANKS` is "all" or what parse_ranks reads. The command is split at blanks; single and double
/// quotes and a backslash keep them, as in a shell, and nothing is expanded. On error the context
/// is what was given and what is accepted.
Result<Wrap> parse_wrap(std::string_view text);

}  // namespace ddprun::launcher
