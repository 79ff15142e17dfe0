// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/coordinator/hang_verdict.hpp"
#include "rendezvous/coordinator/host_record.hpp"
#include "rendezvous/coordinator/ledger.hpp"
#include "rendezvous/coordinator/membership.hpp"
#include "rendezvous/coordinator/restart_budget.hpp"
#include "rendezvous/coordinator/round.hpp"
#include "rendezvous/coordinator/save_agreement.hpp"
#include "rendezvous/coordinator/silence.hpp"
#include "rendezvous/coordinator/verdict.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The data of a `Job`, and what each of its states adds. Each state's functions are in the file of
/// its name (forming.hpp, running.hpp, draining.hpp, recovering.hpp, ending.hpp), those of every
/// state in connections.hpp, departures.hpp, node_drain.hpp, preemption.hpp, reports.hpp and
/// standby.hpp; only they and job.cpp use this. Data of one state are gone when the job leaves it.
namespace ddprun::coordinator {

/// When the nodes that wait are notified of what they wait for.
struct WaitNotes {
    Instant waiting_since{};
    /// All of them; each time after three times as long a wait.
    Instant all_at{};
    /// Those that came since a note was sent: `arrivals` is the number of those before.
    std::optional<Instant> newcomers_at;
    std::uint64_t arrivals = 0;
};

/// Waits for enough nodes.
struct Forming {
    /// Why there is another round; empty before the first one.
    std::string why;
    Instant join_ends{};
    /// Instead of `join_ends` since members are missing that were lost, if that has a limit.
    std::optional<Instant> replacement_ends;
    /// While `min` are ready: when the last call ends.
    std::optional<Instant> last_call_ends;
    /// No round begins before that.
    std::optional<Instant> pause_ends;
    WaitNotes notes;

    Forming(Instant waits_from, const control::Settings& settings);
};

/// The hang that lasts, as the nodes were notified of it.
struct ReportedHang {
    HangVerdict::Kind kind;
    std::string headline;
    bool has_killed = false;
};

/// The current round's workers run, or are being started.
struct Running {
    /// When the round has run long enough for a full restart budget.
    std::optional<Instant> refill_at;
    std::optional<Instant> first_late_at;
    std::optional<Instant> admit_at;
    std::optional<Instant> surplus_check_at;
    /// While all ranks are to save, and until when that is waited for.
    std::optional<SaveAgreement> save;
    std::optional<Instant> save_ends_at;
    /// The newest save point that a member may have.
    std::optional<control::SavePoint> known_save;
    /// When the ranks are judged, since a node has reported what its workers do.
    std::optional<Instant> judge_at;
    std::optional<ReportedHang> hang;
};

/// The current round is being stopped on every node.
struct Draining {
    control::Stop stop;
    /// How long the round ran before.
    Duration ran_for{};
    /// When the members that are not ready are looked at.
    std::optional<Instant> look_at;
    /// The first member lost or left in this round.
    std::optional<control::Cause> departure;
    std::vector<NodeFailure> failures;
};

/// The server was started again: members report the round they are in.
struct Recovering {
    Instant ends_at{};
    /// A member came back with workers of the current round, or with workers that are still ending.
    bool has_workers = false;
    bool has_stopping = false;
    /// As sent to the members before, by group rank.
    std::map<int, std::vector<control::Neighbour>> neighbours;
    /// The round is being stopped.
    std::optional<Draining> draining;
    /// The newest that a member of the round has, and what their ranks have done about it, by group
    /// rank.
    std::optional<control::SavePoint> known_save;
    std::map<std::size_t, control::SaveReport> save_reports;
};

struct Over {
    control::JobResult result;
    /// The nodes that get all of it, with their tokens; any other gets it without the text of
    /// workers.
    std::map<Nonce, std::optional<Nonce>> members;
    /// It will be known to the next leader: until then no node gets it. Always, where there is
    /// none.
    bool is_recorded = true;
    /// No node comes back for the result after that.
    Instant forget_at{};
};

using JobState = std::variant<Forming, Running, Draining, Recovering, Over>;

/// "forming", by index of the state.
std::string_view state_name(std::size_t index);

struct JobIdentity {
    std::string run_id;
    std::string incarnation;
    /// Where its first node came from: `Connected::peer_network`.
    std::string network = {};
    /// The scheduler's name for it, if that is where it came from: names of one scheduler are
    /// ordered in time. `incarnation` begins with it.
    std::optional<std::string> given;
    /// The server lives inside a `ddprun`.
    bool is_hosted = false;
    /// How the previous job of this id ended; empty if none is known.
    std::string previous_end;
    /// Of the leadership under which this server has the job.
    std::uint64_t epoch = 0;
};

/// Under which name the rounds of the job are counted.
enum class Naming : std::uint8_t {
    named,
    /// The number of the next round is not known: if there is another round, it is the first one of
    /// a new incarnation.
    outdated,
    /// A new incarnation, named with the first node that joins.
    nameless,
    /// As `named`, but it had rounds under another name: it is kept while no node is there.
    renamed,
};

/// Restarts of the job.
struct Restarts {
    RestartBudget budget;
    RestartDelay delay;
    LossRecord losses;
    ProgressRecord progress;
    /// Rounds that were followed by another, by what ended them.
    std::map<control::Cause::Kind, std::uint64_t> by_cause;
};

/// Causes that outlive a state.
struct Causes {
    /// The job is to end when its workers are gone.
    std::optional<control::Cause> cancel;
    /// And all its ranks have saved the same step for that.
    bool is_saved = false;
    /// The first `leave` since the round began, or since there is none.
    std::optional<control::Cause> left;
    /// Why the last round ended, or why a member is missing since.
    std::optional<control::Cause> last;
};

/// Nodes of hosts that come and go.
struct Holds {
    HostRecord hosts;
    /// When the first of the held nodes is free, or earlier if it has gone.
    std::optional<Instant> ends_at;
    /// Hosts whose nodes stand by until they are undrained, each with the reason.
    std::map<std::string, std::string> drained;
};

/// For the log and /status: the last `Changed`.
struct Said {
    std::string state;
    std::string reason;
};

/// For metrics.
struct PhaseTimes {
    std::array<Duration, std::variant_size_v<JobState>> spent{};  ///< up to `entered_at`
    Instant entered_at{};

    /// From the begin of the job, which is in the state of this index now, to its end.
    Duration until_the_end(Instant now, std::size_t state) const;
};

struct JobData {
    JobIdentity identity;
    /// The first node's join: nodes, budget, settings, user.
    control::Join terms;
    JobState state;
    Membership members;
    Silence silence;
    std::optional<Round> round;  ///< current, or the last one
    int next_round = 0;
    Naming naming = Naming::named;
    Restarts restarts;
    Causes causes;
    Holds holds;
    Said said;
    PhaseTimes phases;
    Ledger ledger;
    /// While no node keeps the job: when it is forgotten.
    std::optional<Instant> deserted_until;
    std::uint64_t hang_count = 0;
    /// Messages about other rounds, or that make no sense in the sender's state.
    std::uint64_t stale_count = 0;

    JobData(JobIdentity identity, const control::Join& terms, JobState state, Instant now);

    template <class State>
    bool is() const {
        return std::holds_alternative<State>(state);
    }
    /// The drain of the current round, also while the job recovers; null if it is not stopped.
    Draining* drain();
    const Draining* drain() const;
    /// Members have workers of the current round, stopping or not.
    bool has_current_round() const;
    /// The current round has begun and is not being stopped.
    bool is_round_going_on() const;
    bool has_successes() const { return round && round->succeeded_count > 0; }
    /// No round of this incarnation was ever begun.
    bool is_young() const { return is<Forming>() && !round; }
    bool is_empty() const;
    /// This server has begun a round of it. Until then, or when it was only reported to have one,
    /// its nodes keep it while they are connected, and for their lease: an hour at most, except
    /// while all places of a reported round were taken up and workers may run.
    bool is_proven() const { return round && !round->is_recovered; }
    /// No node keeps the job: none is left, or none of an unproven one is connected.
    bool is_deserted();
    /// A job that can only have one node has none: no other node depends on it. But where servers
    /// are elected another node may come to lead, and give its place away.
    bool has_lease() const {
        return terms.nodes.max > 1 || terms.nodes.spares > 0 || identity.epoch > 0;
    }
    Duration lease() const;
    std::size_t min_nodes() const { return static_cast<std::size_t>(terms.nodes.min); }
    std::size_t max_nodes() const { return static_cast<std::size_t>(terms.nodes.max); }
    /// Places are free in the current round.
    bool has_room() const { return round->places.size() < max_nodes(); }
    /// How many nodes without a place would get one in a restart: whole units, as far as there is
    /// room. Looks at every member.
    std::size_t growth() const;
    /// When a member that is stopped now is no longer waited for.
    Instant ready_by(Instant now) const;
};

/// What a node of the current round has reported of its workers' steps.
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
    /// For the ledger.
    std::optional<ReportedSteps> steps = std::nullopt;

    /// Leaves the state; a reference into the old one is no longer valid.
    void enter(JobState next);
    /// To a member that is connected; otherwise it learns it when it resumes.
    void send(const Member& member, control::ServerMessage message) const;
    void refuse(ConnectionId connection, std::string reason, std::optional<Duration> retry) const;
    /// The job's state and reason, if they are new.
    void say(std::string_view state, std::string reason) const;
    /// A line for the log; the job's state is as it was.
    void note(std::string text) const;
};

/// "1 node", "2 nodes".
std::string counted(std::size_t count, const char* one);

}  // namespace ddprun::coordinator
