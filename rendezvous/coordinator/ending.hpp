// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>

/// How a job ends, or goes on: an order to end it, success, and what a verdict leads to (another
/// round, or the state `Over`).
namespace ddprun::coordinator {

/// The job is to end on every node, now.
struct JobInterrupted {
    control::Cause::Kind kind;  ///< cancelled or superseded
    int signal;
    std::string reason;
};

void on_interrupted(JobStep& step, const JobInterrupted& interrupted);

void follow(JobStep& step, Verdict verdict);

/// Every member has succeeded.
void succeed(JobStep& step);

}  // namespace ddprun::coordinator
