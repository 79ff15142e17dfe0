// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// The state `Forming`: decides when a round begins, and when the job ends because of too few
/// nodes.
namespace ddprun::coordinator {

/// Enters the state. `why`: the reason for another round. No round begins before `pause` is over.
void form(JobStep& step, std::string why, Duration pause = {});

/// The time at which the job ends unless enough nodes are ready. Lost members that must be replaced
/// may make it earlier.
Instant waits_until(const Forming& state);

Instant next_deadline(const Forming& state);

/// After each event while the job forms: begins a round, ends the job, or sets the reason to wait.
void update_forming(JobStep& step);

}  // namespace ddprun::coordinator
