// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/machine.hpp"
#include "rendezvous/coordinator/effects.hpp"
#include "rendezvous/coordinator/host_record.hpp"
#include "rendezvous/coordinator/membership.hpp"
#include "rendezvous/coordinator/restart_budget.hpp"
#include "rendezvous/coordinator/status.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::coordinator {

/// One life of one job: who is in which round, when a round is over, and how the job ends (why
/// the rules are so: README.md here).
///
///   forming  --enough ready, no pause-->   running    Send Assignment to each member
///   running  --failed, lost, leave,
///              late node, interrupted-->   draining   Send Stop to each member
///   running  --all succeeded-->            over       Send JobResult to everybody
///   draining --all ready, lost or
///              stuck (grace + 5 s)-->      forming    judged: a cause that allows another round
///                                  or      over       Send JobResult to everybody
///   forming  --join_timeout, everybody
///              left, interrupted-->        over       Send JobResult to everybody
///   over     --Resumed-->                  over       Send JobResult
///   recovering --everybody is back,
///                or the lease is over-->   running, draining or forming: as the members told
///
/// Owned and fed by `Coordinator`. What a connection says that is no longer its node's current one
/// means nothing; what is said about another round means nothing, `ready` excepted.
class Job {
public:
    enum class State : std::uint8_t { forming, running, draining, over, recovering };

    /// A join of a node that is not a member, or of one whose answer got lost.
    struct Joined {
        Connected connection;
        control::Join join;
    };
    struct Resumed {
        Connected connection;
        control::Resume resume;
    };
    /// Anything else a member says.
    struct Said {
        ConnectionId connection;
        Nonce nonce;
        control::AgentMessage message;
    };
    /// This connection of a member ended.
    struct Dropped {
        ConnectionId connection;
        Nonce nonce;
    };
    /// The job is to end for everybody, now.
    struct Interrupted {
        control::Cause::Kind kind;  ///< cancelled or superseded
        int signal;
        std::string reason;
    };
    /// Nothing was agreed yet, and what all its nodes want is another job: they are to join anew.
    struct Dissolved {
        std::string reason;
    };
    struct DeadlinePassed {};
    using Event =
        std::variant<Joined, Resumed, Said, Dropped, Interrupted, Dissolved, DeadlinePassed>;
    using Effect = coordinator::Effect;

    struct Identity {
        std::string run_id;
        std::string incarnation;
        /// What the scheduler calls it, if that is where it came from: then a newer one can be told
        /// from an older. `incarnation` begins with it.
        std::optional<std::string> given;
        /// The server lives inside a `ddprun`.
        bool is_hosted = false;
        /// How the previous job of this id ended; empty if there is none to speak of.
        std::string previous_end;
    };

    /// `first` is on what all others must agree. The node itself still has to join.
    Job(Identity identity, const control::Join& first, Instant now);
    /// A job that this server does not know and that runs all the same: it recovers. `first` is the
    /// first that its members tell of it, and still has to be handled.
    Job(Identity identity, const control::Resume& first, Instant now);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    const Identity& identity() const { return identity_; }
    State state() const { return state_; }
    bool is_over() const { return state_ == State::over; }
    /// Over, and nobody is connected or may come back for the result.
    bool is_settled() const { return is_over() && members_.size() == 0; }
    /// Over for so long that nobody comes back for the result.
    bool is_forgettable(Instant now) const { return is_settled() && now >= forget_at_.value(); }
    /// No round of this incarnation was ever begun.
    bool is_young() const { return state_ == State::forming && !round_; }
    /// Nothing was ever agreed and nobody is there: as if it had never been.
    bool is_empty() const { return is_young() && members_.size() == 0 && !goes_on_; }
    /// It goes on as another incarnation, which is named with the first node that comes.
    bool is_nameless() const { return is_nameless_; }
    /// Requires: is_nameless().
    void name(std::string incarnation);
    std::uint32_t user() const { return terms_.node.user; }
    /// Whether this connection speaks for this node.
    bool is_spoken_for(const Nonce& nonce, ConnectionId connection) const;
    const std::optional<control::JobResult>& result() const { return result_; }
    /// "failed: rank 3 ... (exit code 1)".
    std::string ending() const;
    JobStatus status(Instant now, std::size_t first_node) const;
    /// Messages about other rounds, or that make no sense in the sender's state.
    std::uint64_t stale_count() const { return stale_count_; }

private:
    /// A member's place in a round. It stays when the member is lost.
    struct Place {
        Nonce nonce;
        std::string host;
        int nproc = 1;
        int rank_base = 0;
        std::string role;
        int role_rank_base = 0;
        int role_world_size = 0;
        Reach reach;
        std::uint16_t store_port = 0;
        std::uint16_t peer_port = 0;
        /// Those who are asked about it when it is silent, by group rank.
        std::vector<std::size_t> neighbours;
        /// False in a round that recovers, while its member has not come back.
        bool is_known = false;
        bool has_succeeded = false;
        /// When it was lost or left: until then it may have vouched for others.
        std::optional<Instant> gone_at;
        /// Lost or left after it had succeeded: not missed.
        bool is_gone = false;
    };
    struct Round {
        int number = 0;
        int world_size = 0;
        int restart_count = 0;
        std::vector<Place> places;  ///< by group rank
        std::size_t succeeded_count = 0;
        Instant began_at{};
        /// Until it was stopped.
        Duration ran_for{};
        /// Why the round before it ended; empty for the first one.
        std::string because;
        /// Told by its members, and not by this server.
        bool is_recovered = false;
    };
    struct Recovery {
        Instant ends_at;
        /// Somebody came back who was at work in the round at hand, or whose workers still end.
        bool has_workers = false;
        bool has_stopping = false;
        /// As told to them, by group rank.
        std::map<int, std::vector<control::Neighbour>> neighbours;
    };
    struct Failure {
        Instant at;
        control::Cause cause;
        int group_rank;

        bool is_consequence() const { return cause.worker && cause.worker->is_consequence; }
    };

    // Events.
    void on_joined(Joined joined, Instant now, std::vector<Effect>& out);
    void on_resumed(Resumed resumed, Instant now, std::vector<Effect>& out);
    void on_said(Said said, Instant now, std::vector<Effect>& out);
    void on_dropped(const Dropped& dropped, Instant now);
    void on_interrupted(const Interrupted& interrupted, Instant now, std::vector<Effect>& out);
    void on_dissolved(const Dissolved& dissolved, Instant now, std::vector<Effect>& out);
    void on_deadline(Instant now, std::vector<Effect>& out);
    void on_woken_late(Instant now);
    /// Draws the conclusions of what happened: the end of a drain, the next round.
    void settle(Instant now, std::vector<Effect>& out);

    // What members say.
    void on_ready(
        Member& member, const control::Ready& ready, Instant now, std::vector<Effect>& out);
    void on_started(Member& member, const control::Started& started);
    void on_succeeded(Member& member, int round, Instant now, std::vector<Effect>& out);
    void on_failed(Member& member, control::Failed failed, Instant now, std::vector<Effect>& out);
    bool is_news(const Member& member, const control::WorkerFailure& failure) const;
    void on_leave(
        Member& member, const control::Leave& leave, Instant now, std::vector<Effect>& out);

    // Connections.
    std::optional<control::Refused> objection_to_place(const control::Join& join, Instant now);
    void close_outdated(ConnectionId connection, std::vector<Effect>& out);
    void attach(Member& member, const Connected& connection, Instant now, std::vector<Effect>& out);
    void rejoin(Member& member, const Joined& joined, Instant now, std::vector<Effect>& out);
    void give_up_store(Member& member, Instant now, std::vector<Effect>& out);
    void take_up(
        Member& member, const control::Resume& resume, Instant now, std::vector<Effect>& out);
    void take_up_in_round(
        Member& member, const control::Resume& resume, Instant now, std::vector<Effect>& out);
    void take_up_outside(Member& member, const control::Resume& resume, std::vector<Effect>& out);
    void lose(Member& member, const std::string& how, Instant now, std::vector<Effect>& out);
    void depart(const Member& member, control::Cause cause, Instant now, std::vector<Effect>& out);
    void remove(Member& member, Instant now);

    // Silence (job_silence.cpp).
    void look_at_the_silent(Instant now, std::vector<Effect>& out);
    std::optional<std::string> how_it_is_lost(const Member& member, Instant now) const;
    std::optional<Instant> lost_when_disowned_at(const Member& member, Instant now) const;
    std::optional<Instant> next_look_at(const Member& member) const;
    void ask_about(Member& member, Instant now, std::vector<Effect>& out);
    void on_neighbour_heard(
        const Member& witness,
        const control::NeighbourHeard& heard,
        Instant now,
        std::vector<Effect>& out);
    void trust_again(Member& member, std::vector<Effect>& out);
    void note_suspects(
        const std::vector<const Member*>& suspects, Instant now, std::vector<Effect>& out);
    std::string silence_text(const Member& member, Instant now) const;
    bool is_heard(const Member& member, Instant now) const;
    bool is_silent(const Member& member, Instant now) const;
    bool is_heard_since(const Member& member, Instant moment, Instant now) const;
    /// The last time that all of the round had been heard; nothing while one is not.
    std::optional<Instant> everybody_heard_at(Instant now) const;
    bool has_witnesses(const Member& member) const;
    std::vector<Witness> witnesses_of(const Member& member, Instant now) const;

    // After the server was started again (job_recovery.cpp).
    Member* take_in(const Resumed& resumed, Instant now, std::vector<Effect>& out);
    void recover(
        Member& member, const control::Resume& resume, Instant now, std::vector<Effect>& out);
    void adopt_round(
        const Member& teller,
        const control::Assignment& assignment,
        Instant now,
        std::vector<Effect>& out);
    bool give_back_place(Member& member, const control::Assignment& assignment);
    void give_up(Member& member, const std::string& why, Instant now, std::vector<Effect>& out);
    void update_recovering(Instant now, std::vector<Effect>& out);
    void finish_recovery(Instant now, std::vector<Effect>& out);
    void begin_anew(Instant now, std::vector<Effect>& out);
    bool is_abandoned(const std::vector<int>& missing) const;
    bool is_newest_round(const std::vector<int>& missing) const;
    void name_neighbours(const std::map<int, std::vector<control::Neighbour>>& told);
    std::vector<int> missing_places() const;
    static std::string places_text(const std::vector<int>& ranks);
    std::string recovery_reason() const;
    std::string recovery_progress(Instant now) const;

    // Rounds.
    void form(std::string why, Instant now);
    void update_forming(Instant now, std::vector<Effect>& out);
    void close_round(const std::string& why, Instant now, std::vector<Effect>& out);
    std::string give_places(const std::vector<Member*>& chosen, Instant now);
    void drain(const control::Cause& cause, int signal, Instant now, std::vector<Effect>& out);
    void stop_untold(Member& member, Instant now, std::vector<Effect>& out);
    void stop_member(Member& member, Instant now, std::vector<Effect>& out);
    void put_out_the_stuck(Instant now, std::vector<Effect>& out);
    void consider_late_node(const Member& member, Instant now, std::vector<Effect>& out);
    void admit_late_nodes(Instant now, std::vector<Effect>& out);
    void refuse_surplus(Instant now, std::vector<Effect>& out);
    void hold_back(Member& member, Instant now, std::vector<Effect>& out);
    void end_holds(Instant now, std::vector<Effect>& out);

    // Judging and ending (job_end.cpp).
    void judge(Instant now, std::vector<Effect>& out);
    void judge_departure(Instant now, std::vector<Effect>& out);
    void judge_failure(Instant now, std::vector<Effect>& out);
    void restart(Instant now, std::vector<Effect>& out);
    void refill_budget(std::vector<Effect>& out);
    void give_up_forming(Instant now, std::vector<Effect>& out);
    void end(
        control::Outcome outcome,
        std::optional<control::Cause> cause,
        int exit_code,
        Instant now,
        std::vector<Effect>& out);
    control::Cause cause_of(const Member& member, const control::Failed& failed) const;
    const Failure* first_failure() const;
    std::vector<control::Consequence> consequences() const;
    const Failure* first_not_executable() const;
    const control::Cause& cause_so_far() const;

    // Questions.
    bool has_lease() const { return terms_.nodes.max > 1 || terms_.nodes.spares > 0; }
    Duration lease() const;
    Instant ready_by(Instant now) const;
    std::size_t most_nodes() const;
    bool has_room() const;
    bool has_other_nodes_at(const std::string& host) const;
    bool is_anybody_done() const { return round_ && round_->succeeded_count > 0; }
    bool is_previous_round_settled() const;
    /// There are members with workers of the round at hand, stopping or not.
    bool has_round_at_hand() const;
    bool is_round_going_on() const;
    bool is_needed(const Member& member) const;
    Place& place_of(const Member& member);
    const Place& place_of(const Member& member) const;
    std::vector<Member*> standbys();
    std::string what_next(Instant now) const;
    std::string standby_reason(const Member& member) const;
    control::Assignment assignment_for(const Member& member) const;
    std::string members_text() const;
    std::string surplus_reason() const;

    // Small changes, each with what must follow from it.
    void enter(State state, Instant now);
    void set_state(Member& member, Member::State state);
    void welcome(const Member& member, std::vector<Effect>& out) const;
    void send(const Member& member, control::ServerMessage message, std::vector<Effect>& out) const;
    static void refuse(
        ConnectionId connection,
        std::string reason,
        std::optional<Duration> retry,
        std::vector<Effect>& out);
    void say(std::string_view state, std::string reason, std::vector<Effect>& out);
    void note(std::string text, std::vector<Effect>& out) const;
    void look_at(Instant moment) { look_at_ = earliest(look_at_, moment); }
    void check() const;
    void check_round() const;

    // For people (job_status.cpp).
    NodeStatus node_status(const Member& member, Instant now) const;
    void count(JobStatus& status, Instant now) const;
    std::string shown_state(const Member& member) const;
    std::string node_reason(const Member& member, Instant now) const;

    Identity identity_;
    /// The first node's join: run id, nodes, budget, settings, user.
    control::Join terms_;
    State state_ = State::forming;
    std::string state_name_;
    std::string reason_;
    Membership members_;
    /// How many are in `Member::State::stopping`: counted, because a drain asks at every `ready`.
    std::size_t stopping_count_ = 0;
    /// How many have no place in the round at hand: counted, because every message asks.
    std::size_t standby_count_ = 0;
    /// How many are suspected.
    std::size_t suspect_count_ = 0;
    RestartBudget budget_;
    RestartDelay delay_;
    LossRecord losses_;
    HostRecord hosts_;
    std::uint64_t stale_count_ = 0;
    /// Something other than a heartbeat happened in the event at hand.
    bool has_changed_ = false;

    std::optional<Round> round_;  ///< at hand, or the last one
    int next_round_ = 0;
    /// Why the last round ended, or why somebody is missing since.
    std::optional<control::Cause> last_cause_;
    /// The job is to end when nobody has workers any more.
    std::optional<control::Cause> cancel_;

    /// While the job recovers.
    std::optional<Recovery> recovery_;
    /// Nobody knows which number is the next: if there is another round it is the first of another
    /// incarnation.
    bool begins_anew_ = false;
    bool is_nameless_ = false;
    /// It had rounds under another name: what it has spent is kept until nobody comes in time.
    bool goes_on_ = false;

    /// The first of those who are held is free then, or earlier if it has gone.
    std::optional<Instant> hold_ends_;

    // Forming.
    std::optional<Instant> join_ends_;
    std::optional<Instant> last_call_ends_;
    std::string forming_why_;
    /// No round begins before that.
    std::optional<Instant> pause_ends_;

    // Running.
    /// When the round has run long enough for a full budget.
    std::optional<Instant> refill_at_;
    std::optional<Instant> first_late_at_;
    std::optional<Instant> admit_at_;
    std::optional<Instant> surplus_check_at_;

    // Draining.
    std::optional<control::Stop> stop_;
    /// When those who are not ready are looked at.
    std::optional<Instant> drain_look_at_;
    /// The first member lost or left in this round.
    std::optional<control::Cause> departure_;
    /// The first that left since the round began, or since there is none.
    std::optional<control::Cause> left_;
    std::vector<Failure> failures_;

    /// Leases and broken connections are looked at then; never later than the first that ends.
    std::optional<Instant> look_at_;

    // For metrics.
    std::array<Duration, 5> spent_in_{};  ///< by State, up to `entered_at_`
    Instant entered_at_;
    /// Rounds that were followed by another, by what ended them.
    std::map<control::Cause::Kind, std::uint64_t> restarts_;

    // Over.
    std::optional<control::JobResult> result_;
    std::optional<Instant> forget_at_;
};

std::string_view name_of(Job::State state);

}  // namespace ddprun::coordinator
