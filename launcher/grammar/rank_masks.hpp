// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/output_plan.hpp"
#include "rendezvous/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// A list of ranks: "0,2,4-7" are ranks of this node, "g8-15" are ranks of the whole job. On error
/// the context is what was given and what is accepted.
Result<std::vector<agent::RankRange>> parse_ranks(std::string_view text);

/// torchrun's "3" for all ranks, or "0:3,4-7:1,g0:2" per rank: 0 nothing, 1 stdout, 2 stderr,
/// 3 both.
Result<std::vector<agent::RankMask>> parse_rank_masks(std::string_view text);

/// The text in the form that parse_rank_masks reads.
std::string describe(const std::vector<agent::RankMask>& masks);

}  // namespace ddprun::launcher
