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
    /// Not empty, and its first word is not empty.
    std::vector<std::string> words;
};

/// `RANKS` is "all" or a list for parse_ranks. The command is split at blanks; single and double
/// quotes and a backslash protect blanks, as in a shell, and nothing is expanded. On error the
/// context is what was given and what is accepted.
Result<Wrap> parse_wrap(std::string_view text);

}  // namespace ddprun::launcher
