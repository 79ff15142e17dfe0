// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

/// What a verdict leads to: another round, or the state `Over`.
namespace ddprun::coordinator {

void follow(JobStep& step, Verdict verdict);

/// Every member has succeeded.
void succeed(JobStep& step);

}  // namespace ddprun::coordinator
