// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/coordinator/hang_verdict.hpp"
#include "rendezvous/coordinator/host_record.hpp"
#include "rendezvous/coordinator/ledger.hpp"
#include "rendezvous/coordinator/membership.hpp"
#include "rendezvous/coordinator/open_command.hpp"
#include "rendezvous/coordinator/restart_budget.hpp"
#include "rendezvous/coordinator/round.hpp"
#include "rendezvous/coordinator/save_agreement.hpp"
#include "rendezvous/coordinator/silence.hpp"
#include "rendezvous/coordinator/timeline.hpp"
#include "rendezvous/coordinator/verdict.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The data of a `Job`, and what each of its states adds. Each state's functions are in the file of
/// its name (forming.hpp, running.hpp, draining.hpp, recovering.hpp, ending.hpp), functions for all
/// states are in connections.hpp, departures.hpp, node_drain.hpp, preemption.hpp, reports.hpp and
/// standby.hpp; only they and job.cpp use this. The data of a state are deleted when the job leaves
/// it.
namespace ddprun::coordinator {

/// When waiting nodes are notified of the reason for their wait.
struct WaitNotes {
    Instant waiting_since{};
    /// When all of them are notified; the interval triples each time.
    Instant all_at{};
    /// When nodes that came after the last note are notified; `arrivals` is the number of nodes
    /// before that note.
    std::optional<Instant> newcomers_at;
    std::uint64_t arrivals = 0;
};

/// Waits for enough nodes.
struct Forming {
    /// Why there is another round; empty before the first one.
    std::string why;
    Instant join_ends{};
    /// Replaces `join_ends` once lost members are missing, if that wait has a limit.
    std::optional<Instant> replacement_ends;
    /// When the last call ends; set while `min` nodes are ready.
    std::optional<Instant> last_call_ends;
    /// No round begins before this.
    std::optional<Instant> pause_ends;
    WaitNotes notes;

    Forming(Instant waits_from, const control::Settings& settings);
};

/// The present hang, as it was reported to the nodes.
struct ReportedHang {
    HangVerdict::Kind kind;
    std::string headline;
    bool has_killed = false;
};

/// The current round's workers run, or are being started.
struct Running {
    /// When the round has run long enough to refill the restart budget.
    std::optional<Instant> refill_at;
    std::optional<Instant> first_late_at;
    std::optional<Instant> admit_at;
    std::optional<Instant> surplus_check_at;
    /// Set while all ranks must save, with the time until which the server waits for that.
    std::optional<SaveAgreement> save;
    std::optional<Instant> save_ends_at;
    /// The newest save point that a member may have received.
    std::optional<control::SavePoint> known_save;
    /// When the ranks are judged; set by a node's report of what its workers do.
    std::optional<Instant> judge_at;
    std::optional<ReportedHang> hang;
};

/// The current round is being stopped on every node.
struct Draining {
    control::Stop stop;
    /// How long the round had run.
    Duration ran_for{};
    /// When members that are not ready are checked.
    std::optional<Instant> look_at;
    /// The first member that was lost or left in this round.
    std::optional<control::Cause> departure;
    std::vector<NodeFailure> failures;
    /// Set when the round's end is judged already, and only workers that were held are being
    /// stopped: why the next round begins.
    std::optional<std::string> next_round;
};

/// The server was restarted: members report their rounds.
struct Recovering {
    Instant ends_at{};
    /// `has_workers`: a member came back with running workers of the current round. `has_stopping`:
    /// one came back with workers that are still ending or have all succeeded.
    bool has_workers = false;
    bool has_stopping = false;
    /// The neighbours sent to each member before the restart, by group rank.
    std::map<int, std::vector<control::Neighbour>> neighbours;
    /// The round is being stopped.
    std::optional<Draining> draining;
    /// The newest save point that a member of the round has reported; and the save reports that
    /// have arrived, by group rank.
    std::optional<control::SavePoint> known_save;
    std::map<std::size_t, control::SaveReport> save_reports;
};

struct Over {
    control::JobResult result;
    /// The nodes that get the whole result, with their tokens. Any other node gets it without the
    /// text of workers.
    std::map<Nonce, std::optional<Nonce>> members;
    /// The next leader will read the end; before that no node gets the result. Always true when
    /// servers are not elected.
    bool is_recorded = true;
    /// After this time no node comes back for the result.
    Instant forget_at{};
};

using JobState = std::variant<Forming, Running, Draining, Recovering, Over>;

/// The name of the state with this index, such as "forming".
std::string_view state_name(std::size_t index);

/// Jobs of different tenants have nothing in common, whatever their run ids are.
struct JobName {
    /// `Connected::tenant`.
    std::string tenant;
    std::string run_id;

    auto operator<=>(const JobName&) const = default;
};

struct JobIdentity {
    std::string run_id;
    std::string incarnation;
    /// The network of its first node: `Connected::peer_network`.
    std::string network = {};
    /// The tenant that may join it, see it and control it: `Connected::tenant`.
    std::string tenant = {};
    /// The scheduler's name for the job, if there is one: the names that one scheduler gives are
    /// ordered in time. `incarnation` begins with it.
    std::optional<std::string> given;
    /// The server is part of a `ddprun`.
    bool is_hosted = false;
    /// How the previous job of this id ended; empty if none is known.
    std::string previous_end;
    /// The epoch of the leadership under which this server has the job.
    std::uint64_t epoch = 0;
    /// The server's own process, where nodes of the job vote about its leader.
    std::optional<control::VoterPlace> voter = std::nullopt;
    /// The lineage of the record by which this server leads; none: no nodes vote.
    std::optional<Nonce> record = std::nullopt;

    JobName name() const { return {tenant, run_id}; }
    control::Resumed resumed() const { return {epoch, record}; }
};

/// The name under which the job's rounds are counted.
enum class Naming : std::uint8_t {
    named,
    /// The number of the next round is unknown, so another round would be the first one of a new
    /// incarnation.
    outdated,
    /// A new incarnation, named after the first node that joins.
    nameless,
    /// Like `named`, but there were rounds under an earlier name, so the job is kept even without a
    /// node.
    renamed,
};

/// Restarts of the job.
struct Restarts {
    RestartBudget budget;
    RestartDelay delay;
    LossRecord losses;
    ProgressRecord progress;
    /// By cause: the number of rounds that ended and were followed by another.
    std::map<control::Cause::Kind, std::uint64_t> by_cause;
};

/// Causes that outlive a state.
struct Causes {
    /// The job ends once its workers are gone.
    std::optional<control::Cause> cancel;
    /// All ranks have saved the same step before that end.
    bool is_saved = false;
    /// The first `leave` since the round began, or since there has been no round.
    std::optional<control::Cause> left;
    /// Why the last round ended, or why a member has been missing since.
    std::optional<control::Cause> last;
};

/// The list of drained hosts, as nodes keep it for the next server.
struct KeptDrains {
    /// How often the list has changed, up to `max_drain_changes`; 0: never.
    int count = 0;
    /// The nodes that may have a list.
    std::set<Nonce> keepers;
    /// They are the right ones for this count and this round.
    int sent_count = 0;
    std::optional<int> sent_round;
};

/// Nodes of hosts that leave and return repeatedly.
struct Holds {
    HostRecord hosts;
    /// When the first held node is released. If that node has left, this may be too early.
    std::optional<Instant> ends_at;
    /// Drained hosts, whose nodes stand by until they are undrained, each with the reason.
    std::map<std::string, std::string> drained;
    KeptDrains kept;
};

/// Which nodes vote about the leader (voter_roll.hpp).
struct JobVoters {
    /// As last reported by the election.
    std::optional<control::Voters> known;
    /// A process that is no part of the job and can vote; none: there is none, or it was not
    /// reached.
    std::optional<control::VoterPlace> witness;
    /// Those of the last `ChangeVoters`, until its answer.
    std::optional<std::vector<control::VoterPlace>> requested;
    /// The answer to the last one is not awaited any more. Another one has to replace it, also for
    /// the voters that are known, since its first step may be done.
    bool is_abandoned = false;
};

/// The last `Changed`, for the log and /status.
struct Said {
    std::string state;
    std::string reason;
};

/// For metrics.
struct PhaseTimes {
    std::array<Duration, std::variant_size_v<JobState>> spent{};  ///< up to `entered_at`
    Instant entered_at{};

    /// The time from the beginning of the job to its end, or to now. `state`: the index of the
    /// job's present state.
    Duration until_the_end(Instant now, std::size_t state) const;
};

/// What has happened so far: for people, and for the next server.
struct JobHistory {
    Said said;
    PhaseTimes phases;
    Ledger ledger;
    Timeline timeline;
    std::uint64_t hang_count = 0;
    /// The number of messages that are about other rounds or do not fit the sender's state.
    std::uint64_t stale_count = 0;

    explicit JobHistory(Instant now) : phases{{}, now}, ledger(now) {}
};

/// The number of nodes, where a command has changed it.
struct JobSize {
    std::optional<control::Resized> resized;
    /// No round has begun since: the next one may have free places filled, also with
    /// `--late-nodes=never`.
    bool is_new = false;
};

/// Commands that wait for agents.
struct OpenCommands {
    /// In the order in which they came.
    std::list<OpenCommand> open;
    /// The id of the last order to an agent.
    std::uint64_t last_order = 0;
};

struct JobData {
    JobIdentity identity;
    /// The first node's join: nodes, budget, settings, user. All nodes must agree with it, also
    /// after a command has changed the number of nodes.
    control::Join terms;
    JobSize size;
    JobState state;
    Membership members;
    Silence silence;
    std::optional<Round> round;  ///< current, or the last one
    int next_round = 0;
    Naming naming = Naming::named;
    Restarts restarts;
    Causes causes;
    Holds holds;
    JobVoters voters;
    JobHistory history;
    /// When the job is forgotten; set while no node keeps it.
    std::optional<Instant> deserted_until;
    OpenCommands commands;

    JobData(JobIdentity identity, const control::Join& terms, JobState state, Instant now);

    template <class State>
    bool is() const {
        return std::holds_alternative<State>(state);
    }
    /// The drain of the current round, even while the job recovers; null when it is not being
    /// stopped.
    Draining* drain();
    const Draining* drain() const;
    /// Members have workers of the current round, running or stopping.
    bool has_current_round() const;
    /// The current round has begun and is not being stopped.
    bool is_round_going_on() const;
    bool has_successes() const { return round && round->succeeded_count > 0; }
    /// No round of this incarnation was ever begun.
    bool is_young() const { return is<Forming>() && !round; }
    bool is_empty() const;
    /// This server has begun a round of the job. Otherwise its nodes keep the job only while they
    /// are connected and for their lease after that. Only an hour of that lease counts, except
    /// while all places of a reported round are taken and workers may run.
    bool is_proven() const { return round && !round->is_recovered; }
    /// No node keeps the job: none is left, or the job is unproven and none is connected.
    bool is_deserted();
    /// False for a job that can have only one node, since no other node depends on it. When servers
    /// are elected every job has a lease: another node may become the leader and give the place
    /// away.
    bool has_lease() const {
        return terms.nodes.max > 1 || terms.nodes.spares > 0 || identity.epoch > 0;
    }
    Duration lease() const;
    /// The number of nodes: as started, or as a command has set it.
    const control::NodeRange& nodes() const {
        return size.resized ? size.resized->nodes : terms.nodes;
    }
    std::size_t min_nodes() const { return static_cast<std::size_t>(nodes().min); }
    std::size_t max_nodes() const { return static_cast<std::size_t>(nodes().max); }
    /// A surplus node waits instead of being refused; also one that a smaller size has left over.
    bool keeps_spares() const { return size.resized || nodes().keeps_spares(); }
    /// Places are free in the current round.
    bool has_room() const { return round->places.size() < max_nodes(); }
    /// Nodes without a place that could get one now. Visits every member.
    std::size_t waiting_count() const;
    /// How many waiting nodes would get a place if the round restarted: whole units, up to the
    /// number of free places. Visits every member.
    std::size_t growth() const;
    /// Until when the server waits for this member when it is stopped now.
    Instant ready_by(const Member& member, Instant now) const;
};

/// The steps that a node of the current round has reported for its workers.
struct ReportedSteps {
    std::size_t group_rank;
    Ledger::Report report;
};

/// One event on its way through a job: its data, the time, and the effects.
struct JobStep {
    JobData& job;
    Instant now;
    std::vector<Effect>& out;
    /// False for events that cannot change the job, such as a heartbeat.
    bool has_changed = true;
    /// Set when the event reported steps; for the ledger.
    std::optional<ReportedSteps> steps = std::nullopt;

    /// Leaves the state; references into the old state become invalid.
    void enter(JobState next);
    /// Sends to a connected member; another member gets the information when it resumes.
    void send(const Member& member, control::ServerMessage message) const;
    void refuse(ConnectionId connection, std::string reason, std::optional<Duration> retry) const;
    /// Reports the job's state and reason, if they are new.
    void say(std::string_view state, std::string reason) const;
    /// Writes a line for the log without changing the job's state.
    void note(std::string text) const;
};

/// "1 node", "2 nodes".
std::string counted(std::size_t count, const char* one);

}  // namespace ddprun::coordinator
