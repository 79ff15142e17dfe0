// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/job.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

/// The part of `Job` that takes a job up from what its members tell, after the server was started
/// again. Nothing of it is on a disk.
namespace ddprun::coordinator {
namespace job_recovery {
namespace {

constexpr std::size_t most_named = 8;

/// What is known of the round that a member tells of, before anybody is put into it.
bool is_same_world(const control::Assignment& a, int world_size, int restart_count) {
    return a.world_size == world_size && a.restart_count == restart_count;
}

}  // namespace
}  // namespace job_recovery

Job::Job(Identity identity, const control::Resume& first, Instant now)
    : identity_(std::move(identity)),
      terms_(first.join),
      state_(State::recovering),
      state_name_("recovering"),
      budget_(first.join.max_restarts),
      delay_(first.join.settings.restart),
      losses_(first.join.settings.max_losses),
      entered_at_(now) {
    recovery_ = Recovery{now + lease(), false, false, {}};
}

/// A node that this server has never heard of tells what it was doing. Nothing if it cannot belong
/// here; it was answered then.
Member* Job::take_in(const Resumed& resumed, Instant now, std::vector<Effect>& out) {
    const auto connection = resumed.connection.connection;
    const auto& join = resumed.resume.join;
    auto why = disagreement(terms_, join);
    auto reach = reach_of(join, resumed.connection);
    if (why.empty() && !reach) why = reach.error().context;
    if (why.empty() && members_.size() >= static_cast<std::size_t>(limits::max_nodes_per_job))
        why = "too many nodes";
    if (!why.empty()) {
        out.push_back(Send{connection, control::Lost{"job '" + identity_.run_id + "': " + why}});
        out.push_back(Close{connection, "resumed another job: " + why});
        return nullptr;
    }
    Member newcomer;
    newcomer.join = join;
    newcomer.connection = resumed.connection;
    newcomer.reach = std::move(*reach);
    newcomer.came_at = now;
    newcomer.heard_at = now;
    newcomer.state = Member::State::out;
    ++standby_count_;
    return &members_.add(std::move(newcomer));
}

void Job::recover(
    Member& member, const control::Resume& resume, Instant now, std::vector<Effect>& out) {
    budget_.restore(resume.spent, resume.assignment ? resume.assignment->restart_count : 0);
    const int told = resume.assignment ? resume.assignment->round : -1;
    if (told > limits::last_round) return give_up(member, "there is no such round", now, out);
    if (resume.assignment && (!round_ || told > round_->number))
        adopt_round(member, *resume.assignment, now, out);
    const bool is_free = resume.state == control::NodeState::ready;
    if (!resume.assignment || told < round_->number) {
        if (!is_free)
            return give_up(
                member,
                told < 0 ? "it tells of no round"
                         : "it came back with round " + std::to_string(told) +
                               ", and the job is in round " + std::to_string(round_->number),
                now,
                out);
        send(member, control::Resumed{}, out);
        set_state(member, Member::State::ready);
        return send(member, control::Standby{recovery_reason()}, out);
    }
    if (!give_back_place(member, *resume.assignment))
        return give_up(member, "what it tells of its round contradicts the others", now, out);
    send(member, control::Resumed{}, out);
    const bool is_stopping = resume.state == control::NodeState::stopping;
    const bool is_done = resume.state == control::NodeState::succeeded;
    // Who is done has no workers: later rounds may have begun without it.
    recovery_->has_stopping |= is_stopping || is_done;
    recovery_->has_workers |= !is_free && !is_stopping && !is_done;
    const bool was_stopping = !is_round_going_on();
    if (resume.failure)
        on_failed(
            member,
            {told, resume.age.value_or(Duration{}), *resume.failure, resume.kind},
            now,
            out);
    if (is_free) set_state(member, Member::State::ready);
    const bool stops = is_free || is_stopping;
    if (stops && is_round_going_on()) {
        control::Cause cause;
        cause.kind = control::Cause::Kind::late_node;
        cause.reason = "round " + std::to_string(told) +
                       " was being stopped when the server was started again";
        cause.round = told;
        last_cause_ = cause;
        drain(cause, SIGTERM, now, out);
    }
    // What was cancelled before this round was known is cancelled all the same.
    if (cancel_ && is_round_going_on()) drain(*cancel_, cancel_->signal, now, out);
    if (is_free) return;
    if (is_round_going_on())
        send(member, *resume.assignment, out);
    else if (was_stopping)
        stop_member(member, now, out);
    switch (resume.state) {
        case control::NodeState::running: on_started(member, {told, resume.reached}); break;
        case control::NodeState::succeeded: on_succeeded(member, told, now, out); break;
        case control::NodeState::starting:
        case control::NodeState::stopping:
        case control::NodeState::ready: break;
    }
}

/// The highest round that anybody tells of is the one that holds. A round that the server had
/// begun after it may have reached nobody who comes back: its number is not used again.
void Job::adopt_round(
    const Member& teller,
    const control::Assignment& assignment,
    Instant now,
    std::vector<Effect>& out) {
    std::vector<Member*> older;
    for (auto* member : members_.by_arrival())
        if (member->group_rank) older.push_back(member);
    for (auto* member : older) {
        member->group_rank.reset();
        ++standby_count_;
        // Who says so itself has left the older one behind.
        if (member->state == Member::State::ready || member == &teller) continue;
        give_up(
            *member,
            "it came back with round " + std::to_string(round_->number) +
                ", and the job is in round " + std::to_string(assignment.round),
            now,
            out);
    }
    Round round;
    round.number = assignment.round;
    round.world_size = assignment.world_size;
    round.restart_count = assignment.restart_count;
    round.began_at = now;
    round.is_recovered = true;
    round.places.resize(static_cast<std::size_t>(assignment.group_world_size));
    round_ = std::move(round);
    next_round_ = assignment.round + 2;
    recovery_->has_workers = false;
    recovery_->has_stopping = false;
    recovery_->neighbours.clear();
    stop_.reset();
    departure_.reset();
    failures_.clear();
}

/// False if it cannot have had this place.
bool Job::give_back_place(Member& member, const control::Assignment& assignment) {
    const auto rank = static_cast<std::size_t>(assignment.group_rank);
    if (member.group_rank) return *member.group_rank == assignment.group_rank;
    const auto size = static_cast<std::size_t>(assignment.group_world_size);
    const bool is_possible =
        size == round_->places.size() && rank < size && !round_->places[rank].is_known &&
        job_recovery::is_same_world(assignment, round_->world_size, round_->restart_count);
    if (!is_possible) return false;
    auto& place = round_->places[rank];
    place.is_known = true;
    place.nonce = member.nonce();
    place.host = member.host();
    place.nproc = member.join.nproc;
    place.rank_base = assignment.rank_base;
    place.role = member.join.role;
    place.role_rank_base = assignment.role_rank_base;
    place.role_world_size = assignment.role_world_size;
    place.reach = member.reach;
    place.store_port = rank == 0 ? assignment.master_port : member.join.store_port;
    place.peer_port = member.join.peer_port;
    recovery_->neighbours[assignment.group_rank] = assignment.neighbours;
    member.group_rank = assignment.group_rank;
    --standby_count_;
    set_state(member, Member::State::starting);
    return true;
}

/// It belongs to something that is over: its workers are killed.
void Job::give_up(Member& member, const std::string& why, Instant now, std::vector<Effect>& out) {
    const auto reason = "node " + member.name() + " is not taken back: " + why;
    note(reason, out);
    if (member.is_connected) {
        send(member, control::Lost{why}, out);
        out.push_back(Close{member.connection.connection, reason});
    }
    remove(member, now);
}

void Job::update_recovering(Instant now, std::vector<Effect>& out) {
    if (cancel_ && !round_) return judge(now, out);
    const bool is_complete = round_ && missing_places().empty();
    if (is_complete || now >= recovery_->ends_at) return finish_recovery(now, out);
    say("recovering", recovery_reason(), out);
}

void Job::finish_recovery(Instant now, std::vector<Effect>& out) {
    const auto missing = missing_places();
    const auto told_neighbours = std::exchange(recovery_->neighbours, {});
    begins_anew_ = !is_newest_round(missing);
    recovery_.reset();
    if (!round_ || is_abandoned(missing)) return form("the server was started again", now);
    name_neighbours(told_neighbours);
    const auto number = "round " + std::to_string(round_->number);
    enter(stop_ ? State::draining : State::running, now);
    if (stop_)
        say("draining", cause_so_far().reason, out);
    else if (missing.empty())
        say("running",
            number + " goes on: the server was started again, no worker was disturbed",
            out);
    const auto refill_after = terms_.settings.restart.refill_after;
    if (!stop_ && budget_.used() > 0 && refill_after > Duration{}) refill_at_ = now + refill_after;
    // What happened meanwhile counts from here.
    on_woken_late(now);
    if (!missing.empty()) {
        control::Cause cause;
        cause.kind = control::Cause::Kind::node_lost;
        cause.reason = places_text(missing) + " of " + number +
                       " did not come back after the server was started again";
        cause.round = round_->number;
        if (!departure_) departure_ = cause;
        if (state_ == State::running) drain(cause, SIGTERM, now, out);
    }
    if (state_ == State::draining) {
        if (has_lease()) put_out_the_stuck(now, out);
        return;
    }
    for (const auto* member : standbys())
        if (member->is_candidate()) consider_late_node(*member, now, out);
}

/// There has been no later round than the one that is known: it takes everybody's workers to be
/// gone, but for those that could not be killed, and they do not come back with all others.
bool Job::is_newest_round(const std::vector<int>& missing) const {
    return recovery_->has_workers || (recovery_->has_stopping && missing.empty());
}

/// Nobody came back who was at work. Then there may have been later rounds than the one that is
/// known, of nodes that come no more, begun by this server's predecessor or by those before it: no
/// number is sure to be unused. So these nodes begin another incarnation, whose rounds count from
/// 0; of the one before it the restarts remain, since the job is the same.
void Job::begin_anew(Instant now, std::vector<Effect>& out) {
    begins_anew_ = false;
    round_.reset();
    next_round_ = 0;
    for (auto* member : members_.by_arrival())
        give_up(
            *member,
            "nobody came back to job '" + identity_.run_id +
                "' who was at work in it: it begins another incarnation",
            now,
            out);
    left_.reset();
    is_nameless_ = true;
    goes_on_ = true;
}

void Job::name(std::string incarnation) {
    require(is_nameless_, "a job has one name");
    is_nameless_ = false;
    identity_.incarnation = std::move(incarnation);
}

/// Those who are missing may have been told long ago how the job ended.
bool Job::is_abandoned(const std::vector<int>& missing) const {
    if (missing.empty() || cancel_) return false;
    const auto members = members_.by_arrival();
    return std::none_of(
        members.begin(), members.end(), [](const Member* member) { return member->is_active(); });
}

/// Who is asked about whom was told by the server's predecessor.
void Job::name_neighbours(const std::map<int, std::vector<control::Neighbour>>& told) {
    std::map<Nonce, std::size_t> rank_of;
    for (std::size_t rank = 0; rank < round_->places.size(); ++rank)
        if (round_->places[rank].is_known) rank_of[round_->places[rank].nonce] = rank;
    for (const auto& [rank, neighbours] : told)
        for (const auto& neighbour : neighbours)
            if (const auto found = rank_of.find(neighbour.nonce); found != rank_of.end())
                round_->places[static_cast<std::size_t>(rank)].neighbours.push_back(found->second);
}

// ---- questions ----------------------------------------------------------------------------------

std::vector<int> Job::missing_places() const {
    std::vector<int> missing;
    if (!round_) return missing;
    for (std::size_t rank = 0; rank < round_->places.size(); ++rank) {
        const auto& place = round_->places[rank];
        const bool is_back = place.is_known && members_.find(place.nonce) != nullptr;
        if (!is_back && !place.is_gone) missing.push_back(static_cast<int>(rank));
    }
    return missing;
}

/// "group ranks 1, 5".
std::string Job::places_text(const std::vector<int>& ranks) {
    using job_recovery::most_named;
    std::string text = ranks.size() == 1 ? "group rank " : "group ranks ";
    for (std::size_t i = 0; i < std::min(ranks.size(), most_named); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (ranks.size() > most_named)
        text += " and " + std::to_string(ranks.size() - most_named) + " more";
    return text;
}

std::string Job::recovery_reason() const {
    return "the server was started again: its nodes have " + seconds_text(lease()) +
           " to come back" +
           (stop_ ? "; then the round ends: " + cause_so_far().reason : std::string{});
}

/// The same with what changes all the time, for the status page.
std::string Job::recovery_progress(Instant now) const {
    auto text = recovery_reason();
    if (round_) {
        const auto missing = missing_places();
        const auto size = round_->places.size();
        text += "; " + std::to_string(size - missing.size()) + " of " + std::to_string(size) +
                " of round " + std::to_string(round_->number) + " are back";
        if (!missing.empty()) text += ", waiting for " + places_text(missing);
    }
    const auto left = std::max(Duration{}, recovery_->ends_at - now);
    return text + " (" +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(left).count()) +
           " s left)";
}

}  // namespace ddprun::coordinator
