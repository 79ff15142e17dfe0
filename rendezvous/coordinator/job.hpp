// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/connections.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/coordinator/ending.hpp"
#include "rendezvous/coordinator/job_data.hpp"
#include "rendezvous/coordinator/reports.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::coordinator {

/// One life of one job: which node is in which round, when a round is over, and how the job ends
/// (reasons: docs/coordinator-decisions.md). What a state does is in the file of its name, its data
/// in job_data.hpp.
///
///   forming    --enough ready, no pause-->   running    Send Assignment to each member
///   running    --failed, lost, leave,
///                late node, interrupted-->   draining   Send Stop to each member
///   running    --all succeeded-->            over       Send JobResult to every member
///   draining   --all ready, lost or
///                stuck (grace + 5 s)-->      forming    verdict.hpp: another round, or
///                                    or      over       Send JobResult to every member
///   forming    --join_timeout, all
///                left, interrupted-->        over       Send JobResult to every member
///   over       --Resumed-->                  over       Send JobResult
///              where servers are elected no JobResult is sent before EndRecorded
///   recovering --all are back, or the
///                lease is over-->            running, draining or forming: as members report
///
/// Owned and fed by `Coordinator`. What arrives on a connection that is no longer its node's
/// current one has no effect; nor has a message about another round, `ready` excepted.
class Job {
public:
    using Identity = JobIdentity;
    using Joined = NodeJoined;
    using Resumed = NodeResumed;
    using Interrupted = JobInterrupted;
    /// Any other message of a member.
    struct Received {
        ConnectionId connection;
        Nonce nonce;
        control::AgentMessage message;
    };
    /// This connection of a member ended.
    struct Dropped {
        ConnectionId connection;
        Nonce nonce;
    };
    /// No round was begun yet, and all its nodes belong to another job: they have to join again.
    struct Dissolved {
        std::string reason;
    };
    /// Its end will be known to the next leader.
    struct EndRecorded {};
    struct DeadlinePassed {};
    using Event = std::variant<
        Joined,
        Resumed,
        Received,
        Dropped,
        Interrupted,
        Dissolved,
        EndRecorded,
        DeadlinePassed>;
    using Effect = coordinator::Effect;

    /// All other nodes have to agree with `first`. The node itself still has to join.
    Job(Identity identity, const control::Join& first, Instant now);
    /// A running job that is unknown to this server: it recovers. `first` is the first report of a
    /// member, and still has to be handled.
    Job(Identity identity, const control::Resume& first, Instant now);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    const Identity& identity() const { return data_.identity; }
    bool is_over() const { return data_.is<Over>(); }
    /// Of a job whose end no node may hear before it is recorded; null: it is not over, or may.
    const control::JobResult* unrecorded_result() const;
    /// Over, and no node is connected or may come back for the result.
    bool is_settled() const {
        return is_over() && data_.members.size() == 0 && unrecorded_result() == nullptr;
    }
    /// Over for so long that no node comes back for the result; or without a node for so long that
    /// it does not go on.
    bool is_forgettable(Instant now) const;
    /// No round of this incarnation was ever begun.
    bool is_young() const { return data_.is_young(); }
    /// Nothing was ever agreed and no node is there: the job leaves no trace.
    bool is_empty() const { return data_.is_empty(); }
    /// It is a new incarnation, which is named with the first node that comes.
    bool is_nameless() const { return data_.naming == Naming::nameless; }
    /// Requires: is_nameless().
    void name(std::string incarnation);
    std::uint32_t user() const { return data_.terms.node.user; }
    /// Whether this connection is the current one of this node.
    bool is_spoken_for(const Nonce& nonce, ConnectionId connection) const;
    /// "failed (rank 3 ..., exit code 1)".
    std::string ending() const;
    JobStatus status(Instant now, std::size_t first_node) const;
    std::uint64_t stale_count() const { return data_.stale_count; }
    /// Each moment of the job is in one phase of its ledger.
    bool is_ledger_complete(Instant now) const;

private:
    void dispatch(JobStep& step, Event event);
    void check();

    JobData data_;
};

/// What /status shows of a job (job_status.cpp).
JobStatus status_of(const JobData& job, Instant now, std::size_t first_node);

}  // namespace ddprun::coordinator
