// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <optional>
#include <string>

/// How a job ends, or goes on: an order to end it, success, and what a verdict leads to (another
/// round, or the state `Over`).
namespace ddprun::coordinator {

/// The job is to end on every node, now.
struct JobInterrupted {
    control::Cause::Kind kind;  ///< cancelled or superseded
    int signal;
    std::string reason;
    /// Between the signal and SIGKILL; the job's own where it is shorter, or where there is none.
    std::optional<Duration> grace = std::nullopt;
};

void on_interrupted(JobStep& step, const JobInterrupted& interrupted);

void follow(JobStep& step, Verdict verdict);

/// Every member has succeeded.
void succeed(JobStep& step);

/// As a node that speaks this version gets it.
control::JobResult result_for(int version, control::JobResult result);

/// The result of a job that is over, once it is recorded. An elected server that is gone by then
/// has sent it to no node, and the next leader may come to another one.
void send_result(JobStep& step, const Member& member);
/// The end will be known to the next leader.
void on_recorded(JobStep& step);

}  // namespace ddprun::coordinator
