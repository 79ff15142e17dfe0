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

/// One round on this node: data of `Agent`, which keeps it until it enters another one.
struct NodeRound {
    /// This node's part of the round, as it is reported to the server.
    struct Progress {
        bool has_started = false;
        bool has_succeeded = false;
        bool is_ready = false;
    };

    /// What the workers say of themselves.
    struct WorkerProgress {
        std::vector<control::RankProgress> known;
        /// When the last of it happened.
        Instant changed_at{};
        std::vector<control::RankProgress> reported;
    };

    control::Assignment assignment;
    FailureReport failures;
    /// None: the round began when this node was leaving.
    std::optional<WorkerGroup> group = std::nullopt;
    Progress reached = {};
    Progress reported = {};
    bool is_failure_reported = false;
    WorkerProgress progress = {};
    /// While hangs are looked for.
    std::optional<health::NodeWatch> watch = std::nullopt;
    /// The GPU of this worker has an error: it is killed then, unless it has ended.
    struct XidEnd {
        int local_rank;
        Instant at;
    };
    std::optional<XidEnd> xid_end = std::nullopt;
    RoundSave save = {};
    bool needs_clean_up = false;
    /// Why the server ended it, and when the log gets what this node waits for since then.
    std::string stop_reason = {};
    std::optional<Instant> note_at = std::nullopt;
};

/// This node is about to be taken away. Its workers run on until they have saved, or the time for
/// that is over.
struct NodeNotice {
    /// 0: the end of the allocation.
    int signal;
    std::string reason;
    Instant ends_at{};
    /// When the workers are killed, whatever they have done.
    Instant killed_at{};
    /// By `ddprunctl drain`, not by a signal.
    bool is_drain = false;
    bool is_reported = false;
};

/// A signal, a command, its health check or an error of its GPU has ended this node, or a command
/// the job.
struct NodeLeaving {
    /// A command that ends the job on every node.
    struct JobEnd {
        std::string reason;
        /// Between the signal and SIGKILL, instead of the job's own.
        std::optional<Duration> grace;
    };

    int signal;
    std::optional<JobEnd> command = std::nullopt;
    bool is_reported = false;
    /// The server in this process has its order to end the job: it needs no message.
    bool has_interrupted_server = false;
    /// The workers are gone: until then a result may come.
    std::optional<Instant> result_deadline = std::nullopt;
    /// Of the notice before, of the command that has drained this node, or what makes it unfit;
    /// empty: there was none.
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
