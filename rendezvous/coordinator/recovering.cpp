// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/recovering.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/departures.hpp"
#include "rendezvous/coordinator/drain_keepers.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/forming.hpp"
#include "rendezvous/coordinator/preemption.hpp"
#include "rendezvous/coordinator/reports.hpp"
#include "rendezvous/coordinator/resize.hpp"
#include "rendezvous/coordinator/running.hpp"

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace ddprun::coordinator {
namespace recovering {
namespace {

constexpr std::size_t most_named = 8;

/// Places of the round whose members have not come back.
struct MissingPlaces {
    std::size_t count = 0;
    /// The first few missing places only: the number of places was stated by a peer, and may be
    /// huge.
    std::vector<std::size_t> first;
};

MissingPlaces missing_places(const JobData& job) {
    MissingPlaces missing;
    if (!job.round) return missing;
    std::size_t next = 0;
    const auto note_up_to = [&](std::size_t end) {
        missing.count += end - next;
        for (; next < end && missing.first.size() < most_named; ++next)
            missing.first.push_back(next);
    };
    for (const auto& [rank, place] : job.round->places.taken()) {
        if (!place.is_gone && job.members.find(place.nonce) == nullptr) continue;
        note_up_to(rank);
        next = rank + 1;
    }
    note_up_to(job.round->places.size());
    return missing;
}

/// Asked after each event, so the members are searched only once every place is taken.
bool are_all_back(const JobData& job) {
    const auto& places = job.round->places;
    return places.taken().size() == places.size() && missing_places(job).count == 0;
}

/// "group ranks 1, 5".
std::string places_text(const MissingPlaces& missing) {
    auto text = (missing.count == 1 ? "group rank " : "group ranks ") +
                short_list(missing.first, {most_named}, [](std::size_t rank) {
                    return std::to_string(rank);
                });
    const auto others = missing.count - missing.first.size();
    return others == 0 ? text : text + " and " + std::to_string(others) + " more";
}

/// Why the job is rebuilt.
std::string what_happened(const JobData& job) {
    return job.identity.epoch > 0 ? "another server leads the job" : "the server was started again";
}

std::string reason(const JobData& job, Instant now) {
    return what_happened(job) + ": its nodes have " + seconds_text(job.lease()) + " to come back" +
           (job.drain() ? "; then the round ends: " + verdict_so_far(job, now).cause.reason
                        : std::string{});
}

std::string outdated_text(int reported, int current) {
    return "it came back with round " + std::to_string(reported) + ", and the job is in round " +
           std::to_string(current);
}

/// The member belongs to a round or job that is over: its workers are killed.
void reject(JobStep& step, Member& member, const std::string& why) {
    const auto reason = "node " + member.name() + " is not taken back: " + why;
    step.note(reason);
    if (member.is_connected) {
        step.send(member, control::Lost{why});
        step.out.push_back(Close{member.connection.connection, reason});
    }
    remove_member(step, member);
}

/// The highest reported round is the current one. The previous server may have begun one more round
/// whose members do not come back, so the number after the current one is not used.
void adopt_round(JobStep& step, const Member& reporter, const control::Assignment& assignment) {
    auto& job = step.job;
    std::vector<Member*> older;
    for (auto* member : job.members.by_arrival())
        if (member->group_rank) older.push_back(member);
    for (auto* member : older) {
        member->group_rank.reset();
        // The reporter itself, and any member that is ready, have left the older round.
        const bool has_left = member->state == Member::State::ready && member->kept.empty();
        if (has_left || member == &reporter) continue;
        reject(step, *member, outdated_text(job.round->number, assignment.round));
    }
    job.round = recovered_round(assignment, step.now);
    // Set again by the reports of members that get their places back.
    job.round->done_step.reset();
    job.next_round = assignment.round + 2;
    auto& state = std::get<Recovering>(job.state);
    state = Recovering{state.ends_at, false, false, {}, std::nullopt, std::nullopt, {}};
}

/// Returns false when the member cannot have had this place.
bool give_back_place(JobStep& step, Member& member, const control::Assignment& assignment) {
    auto& job = step.job;
    if (member.group_rank) return *member.group_rank == assignment.group_rank;
    if (!job.round->put_back(member, assignment)) return false;
    auto& state = std::get<Recovering>(job.state);
    state.neighbours[assignment.group_rank] = assignment.neighbours;
    member.group_rank = assignment.group_rank;
    member.become(Member::State::starting);
    return true;
}

/// Requires: the member has been accepted, so that a refused member changes nothing.
void restore_totals(JobStep& step, const control::Resume& resume) {
    restore_size(step, resume);
    restore_drained_hosts(step, resume);
    if (!resume.goodput) return;
    const auto age = resume.goodput_age.value_or(Duration{});
    step.job.history.ledger.restore(*resume.goodput, age, step.now);
}

void take_back_outside(JobStep& step, Member& member, const control::Resume& resume) {
    if (resume.state != control::NodeState::ready || !resume.kept.empty()) {
        const auto& assignment = resume.assignment;
        return reject(
            step,
            member,
            assignment ? outdated_text(assignment->round, step.job.round->number)
                       : "it reports no round");
    }
    restore_totals(step, resume);
    step.send(member, step.job.identity.resumed());
    member.become(Member::State::ready);
    step.send(member, control::Standby{reason(step.job, step.now)});
}

control::Cause stop_was_begun(const JobData& job, int round) {
    control::Cause cause;
    cause.kind = control::Cause::Kind::late_node;
    cause.reason =
        "round " + std::to_string(round) + " was being stopped when " + what_happened(job);
    cause.round = round;
    return cause;
}

/// Takes over the member's reported state. Requires: the member has its place back.
void take_back_inside(JobStep& step, Member& member, const control::Resume& resume) {
    auto& job = step.job;
    const int reported = resume.assignment->round;
    restore_totals(step, resume);
    job.round->done_step = std::max(job.round->done_step, resume.assignment->done_step);
    const bool is_free = resume.state == control::NodeState::ready;
    const bool is_stopping = resume.state == control::NodeState::stopping;
    const bool is_done = resume.state == control::NodeState::succeeded;
    step.send(member, step.job.identity.resumed());
    if (resume.is_recoverable) note_recoverable(step, member);
    // A member whose workers have all succeeded has none left, so later rounds may have begun
    // without it.
    auto& state = std::get<Recovering>(job.state);
    state.has_stopping |= is_stopping || is_done;
    // Held workers would be in any later round, which begins when its members are free of others.
    state.has_workers |= !resume.kept.empty() || (!is_free && !is_stopping && !is_done);
    const bool was_stopping = !job.is_round_going_on();
    recover_save(step, member, resume);
    if (resume.failure) on_failed(step, member, failed_of(resume));
    if (is_free) {
        member.become(Member::State::ready);
        member.kept = resume.kept;
    }
    if ((is_free || is_stopping) && job.is_round_going_on())
        stop_round(step, stop_was_begun(job, reported), SIGTERM);
    // A job that was cancelled before a member reported this round stays cancelled.
    const auto& cancel = job.causes.cancel;
    if (cancel && job.is_round_going_on()) stop_round(step, *cancel, cancel->signal);
    if (is_free) return;
    if (job.is_round_going_on())
        step.send(member, *resume.assignment);
    else if (was_stopping)
        stop_member(step, member);
    if (resume.state == control::NodeState::running)
        on_started(step, member, {reported, resume.reached});
    if (is_done) on_succeeded(step, member, reported);
}

/// True when no later round than the reported one was begun. A round begins only when the workers
/// of the round before are gone, except for workers that could not be killed; but the nodes of such
/// workers do not come back together with all others.
bool is_newest_round(const Recovering& state, const MissingPlaces& missing) {
    return state.has_workers || (state.has_stopping && missing.count == 0);
}

/// True when missing members may have received the job's result long ago.
bool is_abandoned(const JobData& job, const MissingPlaces& missing) {
    if (missing.count == 0 || job.causes.cancel) return false;
    const auto members = job.members.by_arrival();
    return std::none_of(
        members.begin(), members.end(), [](const Member* member) { return member->is_active(); });
}

/// Sets the neighbours that the previous server had chosen for each member.
void set_neighbours(Round& round, const std::map<int, std::vector<control::Neighbour>>& reported) {
    std::map<Nonce, std::size_t> rank_of;
    for (const auto& [rank, place] : round.places.taken())
        rank_of[place.nonce] = rank;
    for (const auto& [rank, neighbours] : reported)
        for (const auto& neighbour : neighbours)
            if (const auto found = rank_of.find(neighbour.nonce); found != rank_of.end())
                round.places.at(static_cast<std::size_t>(rank)).neighbours.push_back(found->second);
}

void lose_missing(JobStep& step, const MissingPlaces& missing) {
    auto& job = step.job;
    control::Cause cause;
    cause.kind = control::Cause::Kind::node_lost;
    cause.round = job.round->number;
    cause.reason = places_text(missing) + " of round " + std::to_string(cause.round) +
                   " did not come back after " + what_happened(job);
    auto* drain = job.drain();
    if (!drain) drain = &stop_round(step, cause, SIGTERM);
    if (!drain->departure) drain->departure = std::move(cause);
}

/// Called when the round cannot be recovered: its members form another one.
void form_again(JobStep& step) {
    auto& job = step.job;
    const auto* drain = job.drain();
    if (drain && !job.causes.last)
        job.causes.last = drain->departure.value_or(drain->stop.root_cause);
    form(step, what_happened(job));
    restart_clocks(step);
}

void finish(JobStep& step) {
    auto& job = step.job;
    const auto missing = missing_places(job);
    auto& state = std::get<Recovering>(job.state);
    if (!is_newest_round(state, missing)) job.naming = Naming::outdated;
    if (job.round && job.round->done_step) {
        job.history.ledger.restore_step(*job.round->done_step);
        job.restarts.progress.restore_step(*job.round->done_step);
    }
    hold_nodes_of_drained_hosts(job);
    if (!job.round || is_abandoned(job, missing)) return form_again(step);
    set_neighbours(*job.round, state.neighbours);
    feed_round_to_silence(step);
    const auto known_save = state.known_save;
    if (auto drain = std::move(state.draining)) {
        step.enter(std::move(*drain));
        step.say("draining", verdict_so_far(job, step.now).cause.reason);
    } else {
        resume_round(step);
        std::get<Running>(job.state).known_save = known_save;
        if (missing.count == 0)
            step.say(
                "running",
                "round " + std::to_string(job.round->number) + " goes on: " + what_happened(job) +
                    ", no worker was disturbed");
    }
    // Deadlines of events during the recovery begin now.
    restart_clocks(step);
    if (missing.count > 0) lose_missing(step, missing);
    if (job.is<Draining>()) {
        if (job.has_lease()) put_out_the_stuck(step);
        return;
    }
    begin_save_if_noticed(step);
    settle_orphaned_save(step);
    for (const auto* member : job.members.standbys())
        if (member->is_candidate() || member->is_of_drained_host) consider_late_node(step, *member);
}

}  // namespace
}  // namespace recovering

Member* take_in(JobStep& step, const NodeResumed& resumed) {
    auto& job = step.job;
    const auto connection = resumed.connection.connection;
    const auto& join = resumed.resume.join;
    auto why = disagreement(job.terms, join);
    auto reach = reach_of(join, resumed.connection);
    if (why.empty() && !reach) why = reach.error().context;
    if (why.empty() && job.members.size() >= static_cast<std::size_t>(limits::max_nodes_per_job))
        why = "too many nodes";
    if (!why.empty()) {
        step.out.push_back(
            Send{connection, control::Lost{"job '" + job.identity.run_id + "': " + why}});
        step.out.push_back(Close{connection, "resumed another job: " + why});
        return nullptr;
    }
    return &add_member(step, resumed.connection, join, std::move(*reach), Member::State::out);
}

void recover(JobStep& step, Member& member, const control::Resume& resume) {
    using namespace recovering;
    auto& job = step.job;
    const auto& assignment = resume.assignment;
    job.restarts.budget.restore(resume.spent, assignment ? assignment->restart_count : 0);
    if (assignment && !is_possible(*assignment))
        return reject(step, member, "there is no such round");
    if (assignment && (!job.round || assignment->round > job.round->number))
        adopt_round(step, member, *assignment);
    if (!assignment || assignment->round < job.round->number)
        return take_back_outside(step, member, resume);
    if (!give_back_place(step, member, *assignment))
        return reject(step, member, "what it reports of its round contradicts the others");
    take_back_inside(step, member, resume);
}

void update_recovering(JobStep& step) {
    using namespace recovering;
    auto& job = step.job;
    if (job.causes.cancel && !job.round) return end_round(step);
    const bool is_complete = job.round && are_all_back(job);
    if (is_complete || step.now >= std::get<Recovering>(job.state).ends_at) return finish(step);
    step.say("recovering", reason(job, step.now));
}

/// No member came back with workers. So the previous servers may have begun later rounds with nodes
/// that do not come back, and any round number may have been used. The count of spent restarts is
/// kept, since the job is the same.
void start_new_incarnation(JobStep& step) {
    auto& job = step.job;
    job.naming = Naming::nameless;
    job.round.reset();
    job.next_round = 0;
    reject_all(
        step,
        "no node came back to job '" + job.identity.run_id +
            "' with workers: it starts another incarnation");
    job.causes.left.reset();
}

void reject_all(JobStep& step, const std::string& reason) {
    for (auto* member : step.job.members.by_arrival())
        recovering::reject(step, *member, reason);
}

std::string recovery_progress(const JobData& job, Instant now) {
    using namespace recovering;
    auto text = reason(job, now);
    if (job.round) {
        const auto missing = missing_places(job);
        const auto size = job.round->places.size();
        text += "; " + std::to_string(size - missing.count) + " of " + std::to_string(size) +
                " of round " + std::to_string(job.round->number) + " are back";
        if (missing.count > 0) text += ", waiting for " + places_text(missing);
    }
    const auto left = std::max(Duration{}, std::get<Recovering>(job.state).ends_at - now);
    return text + " (" +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(left).count()) +
           " s left)";
}

}  // namespace ddprun::coordinator
