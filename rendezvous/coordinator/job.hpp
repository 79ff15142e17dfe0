// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/connections.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/coordinator/ending.hpp"
#include "rendezvous/coordinator/job_commands.hpp"
#include "rendezvous/coordinator/job_data.hpp"
#include "rendezvous/coordinator/reports.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::coordinator {

/// One life of one job: which node is in which round, when a round is over, and how the job ends
/// (reasons: docs/coordinator-decisions.md). Each state's behaviour is in the file of its name, its
/// data in job_data.hpp.
///
///   forming    --enough ready, no pause-->   running    Send Assignment to each member
///   running    --failed, lost, leave,
///                late node, interrupted-->   draining   Send Stop to each member
///   running    --all succeeded-->            over       Send JobResult to every member
///   draining   --all ready, lost or
///                stuck (grace + 5 s)-->      forming    verdict.hpp: another round, or
///                                    or      over       Send JobResult to every member
///   forming    --held workers are of no use--> draining   Send Stop to their members
///   forming    --join_timeout, all
///                left, interrupted-->        over       Send JobResult to every member
///   over       --Resumed-->                  over       Send JobResult
///              where servers are elected no JobResult is sent before EndRecorded
///   recovering --all are back, or the
///                lease is over-->            running, draining or forming: as members report
///
/// Owned and fed by `Coordinator`. A message on a connection that is no longer its node's current
/// one has no effect. A message about another round has none either, except `ready`.
class Job {
public:
    using Identity = JobIdentity;
    using Joined = NodeJoined;
    using Resumed = NodeResumed;
    using Interrupted = JobInterrupted;
    using Commanded = JobCommanded;
    /// Any other message of a member.
    struct Received {
        ConnectionId connection;
        Nonce nonce;
        control::AgentMessage message;
    };
    /// This connection of a member, or of a command that waits for agents, ended.
    struct Dropped {
        ConnectionId connection;
        Nonce nonce;
    };
    /// No round has begun yet, and all nodes belong to another job: they have to join again.
    struct Dissolved {
        std::string reason;
    };
    /// The end is recorded: the next leader will read it.
    struct EndRecorded {};
    /// The election's record has these voters.
    using VotersChanged = control::Voters;
    /// This process can vote too, where nodes alone are one too few; none: it does not answer.
    struct WitnessChanged {
        std::optional<control::VoterPlace> witness;
    };
    struct DeadlinePassed {};
    using Event = std::variant<
        Joined,
        Resumed,
        Received,
        Dropped,
        Interrupted,
        Commanded,
        Dissolved,
        EndRecorded,
        VotersChanged,
        WitnessChanged,
        DeadlinePassed>;
    using Effect = coordinator::Effect;

    /// Creates a job with the terms of `first`, with which all other nodes must agree. The node
    /// itself still has to join.
    Job(Identity identity, const control::Join& first, Instant now);
    /// Creates a running job that is unknown to this server and recovers. `first` is the first
    /// report of a member, and still has to be handled.
    Job(Identity identity, const control::Resume& first, Instant now);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    const Identity& identity() const { return data_.identity; }
    bool is_over() const { return data_.is<Over>(); }
    /// The result that must be recorded before any node gets it; null when the job is not over, or
    /// when nodes may get the result.
    const control::JobResult* unrecorded_result() const;
    /// The election has not answered the job's last `ChangeVoters` yet.
    bool is_changing_voters() const { return data_.voters.requested.has_value(); }
    /// Requires: the job has no members yet.
    void know(control::Voters voters) { data_.voters.known = std::move(voters); }
    /// Requires: as above.
    void know_witness(std::optional<control::VoterPlace> witness) {
        data_.voters.witness = std::move(witness);
    }
    /// The job is over, and no node is connected or may come back for the result.
    bool is_settled() const {
        return is_over() && data_.members.size() == 0 && unrecorded_result() == nullptr;
    }
    /// The job can be removed: its end is so long ago that no node comes back for the result, or it
    /// has had no node for so long that it cannot continue.
    bool is_forgettable(Instant now) const;
    /// No round of this incarnation has ever begun.
    bool is_young() const { return data_.is_young(); }
    /// The job has no round, no node and no name to keep, so it can be removed without a trace.
    bool is_empty() const { return data_.is_empty(); }
    /// The job is a new incarnation, which is named after the first node that joins.
    bool is_nameless() const { return data_.naming == Naming::nameless; }
    /// Requires: is_nameless().
    void name(std::string incarnation);
    std::uint32_t user() const { return data_.terms.node.user; }
    std::size_t node_count() const { return data_.members.size(); }
    bool has_node(const Nonce& nonce) const { return data_.members.find(nonce) != nullptr; }
    /// A node that is no member becomes one by its resume.
    bool takes_in() const { return data_.is<Recovering>(); }
    /// Whether this is the node's current connection.
    bool is_spoken_for(const Nonce& nonce, ConnectionId connection) const;
    /// "failed (rank 3 ..., exit code 1)".
    std::string ending() const;
    JobStatus status(Instant now, std::size_t first_node) const;
    TimelineStatus timeline(int first_round) const;
    std::uint64_t stale_count() const { return data_.history.stale_count; }
    /// Whether the phases of the job's ledger sum up to the job's whole time.
    bool is_ledger_complete(Instant now) const;

private:
    void dispatch(JobStep& step, Event event);
    void check();

    JobData data_;
};

/// What /status shows of a job (job_status.cpp).
JobStatus status_of(const JobData& job, Instant now, std::size_t first_node);

}  // namespace ddprun::coordinator
