// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/node_watch.hpp"
#include "agent/supervise/ending.hpp"
#include "agent/supervise/failure_report.hpp"
#include "agent/supervise/round_save.hpp"
#include "agent/supervise/worker_group.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// One round on this node: data of `Agent`, kept until the node enters another round.
struct NodeRound {
    /// How far this node's part of the round has got, in the steps that the server gets reports of.
    struct Progress {
        bool has_started = false;
        bool has_succeeded = false;
        bool is_ready = false;
    };

    /// The progress that the workers report.
    struct WorkerProgress {
        std::vector<control::RankProgress> known;
        /// When the progress last changed.
        Instant changed_at{};
        std::vector<control::RankProgress> reported;
    };

    control::Assignment assignment;
    FailureReport failures;
    /// None: the round began while this node was leaving.
    std::optional<WorkerGroup> group = std::nullopt;
    Progress reached = {};
    Progress reported = {};
    bool is_failure_reported = false;
    /// The last `started` said that workers can be held.
    bool is_recoverable_reported = false;
    /// The held workers of the last `ready`.
    std::vector<control::KeptWorker> reported_kept = {};
    WorkerProgress progress = {};
    /// Set while the workers are watched for hangs.
    std::optional<health::NodeWatch> watch = std::nullopt;
    /// The GPU of this worker has an error: the worker is killed at `at`, unless it has ended.
    struct XidEnd {
        int local_rank;
        Instant at;
    };
    std::optional<XidEnd> xid_end = std::nullopt;
    RoundSave save = {};
    bool needs_clean_up = false;
    /// Why the server ended the round.
    std::string stop_reason = {};
    /// When the log gets a note that this node waits for the next round.
    std::optional<Instant> note_at = std::nullopt;
};

/// This node is about to be taken away. Its workers run on until they have saved, or the time for
/// that has passed.
struct NodeNotice {
    /// 0: there was no signal, and the allocation is about to end.
    int signal;
    std::string reason;
    Instant ends_at{};
    /// When the workers are killed, whether or not they have saved.
    Instant killed_at{};
    /// Caused by `ddprunctl drain`, not by a signal.
    bool is_drain = false;
    bool is_reported = false;
};

/// Why this node leaves: a signal, a command, its health check, or an error of its GPU. A command
/// may also end the job.
struct NodeLeaving {
    /// A command that ends the job on every node.
    struct JobEnd {
        std::string reason;
        /// The time between the signal and SIGKILL, in place of the job's grace.
        std::optional<Duration> grace;
    };

    int signal;
    std::optional<JobEnd> command = std::nullopt;
    bool is_reported = false;
    /// The server in this process has been ordered to end the job: no message to it is needed.
    bool has_interrupted_server = false;
    /// Until when this node waits for a result. Set once the workers have ended.
    std::optional<Instant> result_deadline = std::nullopt;
    /// The reason of an earlier notice or of a drain command, or why this node is unfit; empty:
    /// none of these.
    std::string why = {};
    NodeLeft::By by = NodeLeft::By::signal;

    bool ends_job() const { return signal == SIGINT || command; }
    /// "stopped by SIGTERM on node1".
    std::string reason(const std::string& host) const {
        if (command) return command->reason;
        if (by != NodeLeft::By::signal) return why;
        if (!why.empty()) return "stopped by " + why;
        const auto source = signal_name(signal) + " on " + host;
        return (signal == SIGINT ? "interrupted by " : "stopped by ") + source;
    }
};

}  // namespace ddprun::agent
