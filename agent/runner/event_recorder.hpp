// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/output/event_file.hpp"
#include "agent/report/job_report.hpp"
#include "agent/supervise/worker_exit.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <optional>
#include <vector>

namespace ddprun::agent {

/// Writes torchelastic's events for the steps of the runner. Lives on the agent's thread.
class EventRecorder {
public:
    EventRecorder(const AgentConfig& config, Instant now);

    /// The node was assigned its place in a round.
    void assigned(const control::Assignment& assignment, Instant now);
    void worker_started(int local_rank, int pid, Instant now);
    /// `is_expected`: the worker succeeded, or was being stopped.
    void worker_ended(int local_rank, const WorkerExit& exit, bool is_expected, Instant now);
    /// The round is over for this node, and it waits for the next one.
    void round_left(Instant now);
    void finished(const JobReport& report, Instant now);

private:
    Event event(Event::State state, Instant now) const;
    Event::Worker worker(int local_rank) const;

    const AgentConfig& config_;
    Instant began_at_;
    Instant waits_since_;
    std::optional<control::Assignment> assignment_;
    std::vector<int> pids_;
    EventFile file_;
};

}  // namespace ddprun::agent
