// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <optional>
#include <string>
#include <vector>

/// The state `Running`: places are given, late nodes admitted, surplus nodes refused.
namespace ddprun::coordinator {

/// Enters the state with a round of `chosen`. `because`: why the round before ended; `why`: why
/// this one begins now.
void begin_round(
    JobStep& step, const std::vector<Member*>& chosen, std::string because, const std::string& why);

/// Enters the state with the round that was recovered.
void resume_round(JobStep& step);

/// A node without a place became ready.
void consider_late_node(JobStep& step, const Member& member);

/// Called after each event while the job runs: refuses a surplus node once all members have been
/// heard after it joined. Until then it may replace a lost member.
void refuse_surplus(JobStep& step);

/// The deadlines of the state.
std::optional<Instant> next_deadline(const Running& running);
void refill_budget_if_due(JobStep& step);
void admit_late_nodes_if_due(JobStep& step);

}  // namespace ddprun::coordinator
