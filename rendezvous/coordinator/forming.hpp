// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// The state `Forming`: when a round begins, and when too few nodes end the job.
namespace ddprun::coordinator {

/// Enters the state. `why` there is another round; no round begins before `pause` is over.
void form(JobStep& step, std::string why, Duration pause = {});

/// When the job ends unless enough nodes are ready. Earlier when it is sure that a node is missing.
Instant waits_until(const Forming& state);

Instant next_deadline(const Forming& state);

/// After each event while the job forms: begins a round, ends the job, or sets the reason to wait.
void update_forming(JobStep& step);

}  // namespace ddprun::coordinator
