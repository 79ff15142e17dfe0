// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/coordinator/end_record.hpp"
#include "rendezvous/coordinator/job.hpp"
#include "rendezvous/coordinator/job_quotas.hpp"
#include "rendezvous/coordinator/leadership.hpp"
#include "rendezvous/coordinator/scope.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::coordinator {

/// Decides for all jobs of one server which node is in which round, when a round is over, and how a
/// job ends (the table in job.hpp). Owns a `Job` machine for each job, finds it by tenant and run
/// id, and maps each connection to its node and job.
///
/// Driven by server/control_server (real sockets) and tests/sim (simulated links). Connections are
/// represented by ids; the shell drops a message for a connection that is gone.
class Coordinator {
public:
    /// The surrounding program.
    struct Options {
        /// Inside a `ddprun`: serves this run id only, and is reported to agents as `hosted`.
        std::optional<std::string> hosted_run_id;
        /// The server acts only while it leads; before and afterwards, nodes must retry.
        bool is_elected = false;
        std::size_t most_nodes_of_tenant = limits::max_nodes_per_tenant;
        /// This process as a voter: nodes of a job vote about its leader, and the coordinator
        /// chooses which ones. None: they do not vote.
        std::optional<control::VoterPlace> voter = std::nullopt;
    };

    using Connected = coordinator::Connected;
    struct Received {
        ConnectionId connection;
        control::AgentMessage message;
    };
    /// The connection ended: end of file, reset, or closed by this server.
    struct Disconnected {
        ConnectionId connection;
    };
    /// The hosting `ddprun` was interrupted: every job ends on every node with this signal.
    struct Interrupted {
        int signal;
        std::string reason;
        /// As in `JobInterrupted`.
        std::optional<Duration> grace = std::nullopt;
    };
    using Led = coordinator::Led;
    /// Answers `Record`: this record and all earlier ones are stored.
    struct Recorded {
        std::uint64_t number;
    };
    /// The record of this job's leader has these voters, after `ChangeVoters` or otherwise. Also
    /// between the two steps of a change, and while this server does not lead.
    struct VotersChanged {
        std::string run_id;
        control::Voters voters;
    };
    /// A process that is no part of the hosted job can vote about its leader, where nodes alone are
    /// one too few. One that was started again is another voter. None: it does not answer.
    struct WitnessChanged {
        std::optional<control::VoterPlace> witness;
    };
    /// The server no longer leads: the election reports it, or its own node leaves.
    struct Deposed {
        std::string reason;
    };
    struct DeadlinePassed {};
    using Event = std::variant<
        Connected,
        Received,
        Disconnected,
        Interrupted,
        Led,
        Recorded,
        VotersChanged,
        WitnessChanged,
        Deposed,
        DeadlinePassed>;

    using Send = coordinator::Send;
    using Close = coordinator::Close;
    using Changed = coordinator::Changed;
    using Ranked = coordinator::Ranked;
    using Waiting = coordinator::Waiting;
    using Hung = coordinator::Hung;
    using Record = coordinator::Record;
    using ChangeVoters = coordinator::ChangeVoters;
    using Commanded = coordinator::Commanded;
    using SteppedDown = coordinator::SteppedDown;
    using Effect = coordinator::Effect;

    explicit Coordinator(Options options)
        : options_(std::move(options)),
          leadership_(options_.is_elected),
          quotas_(options_.most_nodes_of_tenant) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    /// The epoch of the leadership under which this server acts; 0: the server does not lead, or
    /// was not elected.
    std::uint64_t epoch() const { return leadership_.epoch(); }
    /// None: this server does not lead now, or was not elected.
    std::optional<LeaderStatus> leader(Instant now) const { return leadership_.status(now); }
    /// No job is running and no node is connected: a hosting `ddprun` may exit.
    bool is_idle() const { return unsettled_.empty(); }
    /// For /status: every job, at most `limits::max_status_nodes` nodes of each from `first_node`.
    std::vector<JobStatus> status(Instant now, std::size_t first_node = 0) const;
    /// Visits a few jobs at a time, since visiting thousands of jobs at once would delay
    /// heartbeats.
    struct StatusTurn {
        std::vector<JobStatus> jobs;
        /// The number of the last visited job; 0: there are no further ones.
        std::uint64_t last = 0;
    };
    struct StatusRange {
        Scope scope;
        std::string run_id;  ///< empty: any
        std::size_t first_node = 0;
        /// The job after which the turn begins, and how many jobs it visits.
        std::uint64_t after = 0;
        std::size_t most = 0;
        /// The first round of the timeline; none: without a timeline.
        std::optional<int> first_round = std::nullopt;
    };
    StatusTurn status_turn(Instant now, const StatusRange& range) const;
    /// How many messages had no effect, because they were about another round or came on a replaced
    /// connection.
    std::uint64_t stale_count() const;
    /// Whether the phases of every job's ledger sum up to its time. For tests only: a wrong sum is
    /// no reason to abort a server.
    bool are_ledgers_complete(Instant now) const;

private:
    /// Grows in order of creation. A job that is over is kept for nodes that come back for its
    /// result.
    using JobId = std::uint64_t;
    struct Peer {
        Connected connected;
        /// The node's job, once its join or resume was accepted; or that of a command that waits
        /// for agents.
        std::optional<JobId> job;
        Nonce nonce;
        /// The connection takes nothing after its command.
        bool has_commanded = false;
    };

    void dispatch(Event& event, Instant now, std::vector<Effect>& out);
    void step_down(
        std::string reason,
        std::uint64_t known_epoch,
        std::vector<Effect>& out,
        std::optional<control::Voters> claimed = std::nullopt);
    bool is_just_begun(const std::string& run_id) const;
    void on_claim(
        ConnectionId connection, control::Claim claim, Instant now, std::vector<Effect>& out);
    void on_voters_changed(VotersChanged changed, Instant now, std::vector<Effect>& out);
    void on_witness_changed(WitnessChanged changed, Instant now, std::vector<Effect>& out);
    std::string reason_to_wait(const control::Join& join, Instant now) const;
    void turn_elsewhere(
        const Received& received, control::Refused refused, std::vector<Effect>& out) const;
    void on_received(Received received, Instant now, std::vector<Effect>& out);
    void on_join(Peer& peer, control::Join join, Instant now, std::vector<Effect>& out);
    void on_resume(Peer& peer, control::Resume resume, Instant now, std::vector<Effect>& out);
    void on_command(Peer& peer, control::JobCommand command, Instant now, std::vector<Effect>& out);
    std::string no_such_job(const std::string& tenant, const std::string& run_id) const;
    control::JobCommandAnswer shown_jobs(
        const std::string& tenant, const std::string& run_id, Instant now) const;
    void on_disconnected(ConnectionId connection, Instant now, std::vector<Effect>& out);
    void on_interrupted(const Interrupted& interrupted, Instant now, std::vector<Effect>& out);
    void on_deadline(Instant now, std::vector<Effect>& out);

    /// Why no job may be begun for this join, and when to ask again; none: it may be begun.
    std::optional<control::Refused> objection_to_new_job(
        const Peer& peer, const control::Join& join) const;
    /// Why this server accepts no further job or node of this peer; empty: it accepts one.
    std::string objection_to_count(const Peer& peer, JobQuotas::Request request) const;
    static JobName name_of(const Peer& peer, const control::Join& join) {
        return {peer.connected.tenant, join.run_id};
    }
    /// The objection when the job that runs under this id is another incarnation than the join
    /// names.
    std::optional<control::Refused> objection_to_incarnation(
        JobId id, const control::Join& join, Instant now, std::vector<Effect>& out);
    /// Why this unknown job cannot be rebuilt from any node; empty: it may be rebuilt.
    std::string reason_it_is_lost(const Peer& peer, const control::Resume& resume) const;
    /// Why the job cannot be rebuilt from this node in addition to the other jobs; empty: it can.
    std::string objection_to_recovery(
        const Peer& peer, const control::Resume& resume, Instant now, std::vector<Effect>& out);
    JobId begin_recovery(const Peer& peer, const control::Resume& resume, Instant now);
    void supersede(JobId id, const std::string& incarnation, Instant now, std::vector<Effect>& out);
    void bind(Peer& peer, JobId id, const Nonce& nonce);
    void name(JobId id, const control::Join& join);
    std::string unused_incarnation(const JobName& name, const std::string& base) const;
    bool has_ended(const JobName& name, const std::string& incarnation) const;
    JobId add_job(Job job);
    JobId begin_job(const Peer& peer, const control::Join& join, Instant now);
    void pass(JobId id, Job::Event event, Instant now, std::vector<Effect>& out);
    void record_end(JobId id, std::vector<Effect>& out);
    void on_recorded(std::uint64_t number, Instant now, std::vector<Effect>& out);
    void forget(JobId id);
    static void refuse(ConnectionId connection, control::Refused refused, std::vector<Effect>& out);
    void complain(const Peer& peer, std::string reason, Instant now, std::vector<Effect>& out);
    void check() const;

    Options options_;
    Leadership leadership_;
    std::map<ConnectionId, Peer> peers_;
    std::map<JobId, Job> jobs_;
    JobId next_job_ = 1;
    JobQuotas quotas_;
    /// The newest job of each name, whether over or not.
    std::map<JobName, JobId> newest_;
    /// By name and incarnation; a job with a new incarnation is listed under both.
    std::map<std::pair<JobName, std::string>, JobId> by_incarnation_;
    /// Jobs that have ended and are forgotten: of each tenant by run id and incarnation, oldest
    /// first. The server must not recover such a job when one of its nodes comes back.
    std::map<std::string, std::deque<std::pair<std::string, std::string>>> ended_;
    /// Jobs that are not over, or whose members have not all closed their connections.
    std::set<JobId> unsettled_;
    /// The earliest deadline comes first; one entry for each job that has a deadline.
    std::set<std::pair<Instant, JobId>> deadlines_;
    std::map<JobId, Instant> deadline_of_;
    std::optional<Interrupted> interrupted_;
    /// For nodes that ask while this server does not lead: the voters can name the leader. None: no
    /// nodes vote, or they are not known.
    std::optional<VotersChanged> voters_;
    std::optional<control::VoterPlace> witness_;
    /// The ends of jobs under this server and earlier leaders.
    EndRecord ends_;
    /// Jobs whose end is not recorded yet, by the number of the `Record`.
    std::map<std::uint64_t, JobId> unrecorded_;
    std::uint64_t last_record_ = 0;
};

std::string describe(const Coordinator::Event& event);
std::string describe(const Effect& effect);

}  // namespace ddprun::coordinator
