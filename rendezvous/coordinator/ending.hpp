// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <optional>
#include <string>

/// How a job ends or continues: after an order to end it, after success, or by a verdict (another
/// round, or the state `Over`).
namespace ddprun::coordinator {

/// The job must end on every node, now.
struct JobInterrupted {
    control::Cause::Kind kind;  ///< cancelled or superseded
    int signal;
    std::string reason;
    /// The time between the signal and SIGKILL. Shortens the job's own grace, and never extends it;
    /// none: the job's own grace.
    std::optional<Duration> grace = std::nullopt;
};

void on_interrupted(JobStep& step, const JobInterrupted& interrupted);

void follow(JobStep& step, Verdict verdict);

/// Every member has succeeded.
void succeed(JobStep& step);

/// The result in the form for a node of this protocol version.
control::JobResult result_for(int version, control::JobResult result);

/// Sends the result of a job that is over, once it is recorded. If an elected server ends before
/// that, no node has the result, and the next leader may decide on another one.
void send_result(JobStep& step, const Member& member);
/// The end is recorded: the next leader will read it.
void on_recorded(JobStep& step);

}  // namespace ddprun::coordinator
