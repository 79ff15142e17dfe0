// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

#include <string>
#include <vector>

/// Commands that take nodes out of a job, and admit their hosts again. A drained node gets an order
/// and sends a `Leave`, as after SIGTERM to its `ddprun`. The job then handles this `Leave` like
/// any other. A node that joins from its host later is a member without a place until the host is
/// undrained. Other nodes of the host that were members before are not affected.
namespace ddprun::coordinator {

/// What follows from a command to drain nodes.
struct DrainPlan {
    bool is_possible = false;
    /// The answer: what is done, or why the command is refused.
    std::string text;
    std::vector<Member*> members = {};
    std::string reason = {};
};
DrainPlan plan_drain(JobData& job, const control::Drain& drain);
/// Requires: the job has not changed since the plan was made. Does nothing for a refused command.
void perform(JobStep& step, const DrainPlan& plan);

struct UndrainPlan {
    bool is_possible = false;
    std::string text;
    std::vector<std::string> hosts = {};
    /// For the log.
    std::string note = {};
};
UndrainPlan plan_undrain(JobData& job, const control::Undrain& undrain);
void perform(JobStep& step, const UndrainPlan& plan);

/// Performs the command and reports to the sender what was done, or why it was refused.
void on_drain(JobStep& step, const Member& sender, const control::Drain& drain);
void on_undrain(JobStep& step, const Member& sender, const control::Undrain& undrain);

/// Sends the order again to a drained node that has not announced its leave: the order may have
/// been lost with a connection. Does nothing for a node that is not in the job.
void repeat_drain(const JobStep& step, const Nonce& nonce);

}  // namespace ddprun::coordinator
