// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/preemption.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/draining.hpp"

#include <signal.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace ddprun::coordinator {
namespace preemption {
namespace {

std::string ranks_text(int count) {
    return std::to_string(count) + (count == 1 ? " rank" : " ranks");
}

/// The first notice, as in " (SIGTERM on node2)".
std::string reason_text(const std::vector<Member*>& members) {
    return members.empty() ? "" : " (" + members.front()->notice->reason + ")";
}

/// Rounded to a tenth of a second; never negative.
std::string short_seconds(Duration length) {
    using Tenths = std::chrono::duration<std::int64_t, std::deci>;
    return seconds_text(std::chrono::round<Tenths>(std::max(length, Duration{})));
}

/// Members of the round that have given notice, in order of arrival.
std::vector<Member*> noticed(JobData& job) {
    std::vector<Member*> members;
    for (auto* member : job.members.by_arrival())
        if (member->notice && member->group_rank) members.push_back(member);
    return members;
}

/// A member of the round whose protocol version does not have the messages of a save; null: there
/// is none.
const Member* older_member(const JobData& job) {
    for (const auto* member : job.members.by_arrival())
        if (member->group_rank && member->version() < control::save_since) return member;
    return nullptr;
}

void answer(const JobStep& step, Member& member, const std::string& reason) {
    member.notice.reset();
    step.send(member, control::NoticeOver{reason});
}

/// The save point to send to a member of the round.
control::SaveAt order_of(const JobStep& step) {
    const auto& state = std::get<Running>(step.job.state);
    control::SaveAt order{step.job.round->number, state.known_save.value()};
    // The margin lets the server end the agreement first, if it is reachable.
    if (state.save_ends_at)
        order.left = std::max(*state.save_ends_at - step.now, Duration{}) + limits::save_margin;
    return order;
}

void send_point(const JobStep& step) {
    const auto& job = step.job;
    for (const auto& [rank, place] : job.round->places.taken()) {
        const auto* member = job.members.find(place.nonce);
        if (member != nullptr && member->version() >= control::save_since)
            step.send(*member, order_of(step));
    }
}

/// `how`: the final state of the save point. An agreed save point is not withdrawn: some ranks may
/// be saving it, and the others must do the same.
void end_save(const JobStep& step, control::SaveState how) {
    auto& state = std::get<Running>(step.job.state);
    state.save.reset();
    state.save_ends_at.reset();
    auto& point = state.known_save;
    const bool is_withdrawn = how == control::SaveState::cancelled;
    if (!point || (is_withdrawn && point->state != control::SaveState::proposed)) return;
    point->state = how;
    send_point(step);
}

std::map<std::size_t, SaveAgreement::Node> nodes_of(const Round& round) {
    std::map<std::size_t, SaveAgreement::Node> nodes;
    for (const auto& [rank, place] : round.places.taken())
        if (!place.is_gone) nodes[rank] = {place.nproc, place.rank_base};
    return nodes;
}

/// "; rank 3 on node2 has not called should_save so far": the other ranks may be waiting for it.
std::string silent_text(const JobData& job, const SaveAgreement& save) {
    const auto silent = save.silent();
    if (!silent) return "";
    return "; rank " + std::to_string(silent->rank) + " on " +
           job.round->places.at(silent->group_rank).host + " has not called should_save so far";
}

/// "rank 3 on node2 has not called should_save (phase eval)".
std::string missing_text(const JobData& job, const SaveAgreement& save) {
    const auto missing = save.missing();
    if (!missing) return "the ranks did not agree in time";
    const auto& place = job.round->places.at(missing->group_rank);
    if (missing->is_unheard) return "node " + place.host + " did not answer";
    auto text = "rank " + std::to_string(missing->rank) + " on " + place.host;
    const bool is_agreed = save.state() == SaveAgreement::State::agreed;
    if (!missing->has_asked)
        text += " has not called should_save";
    else if (is_agreed)
        text += " has not saved step " + std::to_string(save.point().step);
    else
        text += " was not reached";
    for (const auto& rank : place.progress)
        if (rank.local_rank == missing->local_rank && rank.progress.is_known())
            text += " (" + control::describe(rank.progress) + ")";
    return text;
}

/// There is no common save: the nodes that gave notice leave without it.
void give_up(JobStep& step, const std::string& why) {
    auto& job = step.job;
    const auto text = "preemption without a common save: " + why;
    end_save(step, control::SaveState::cancelled);
    step.say("running", text);
    for (auto* member : noticed(job))
        answer(step, *member, text);
}

/// Enough members stay for another round at once, or the job's settings allow it to wait for other
/// nodes.
bool goes_on(const JobData& job) {
    std::size_t staying = 0;
    for (const auto* member : job.members.by_arrival()) {
        if (member->notice && member->notice->ends_job) return false;
        if (!member->notice && member->stays()) ++staying;
    }
    const auto& replacement = job.terms.settings.replacement_timeout;
    return staying >= job.min_nodes() || (replacement && *replacement > Duration{});
}

void conclude(JobStep& step) {
    auto& job = step.job;
    auto& state = std::get<Running>(job.state);
    const auto& save = *state.save;
    const auto left = short_seconds(state.save_ends_at.value_or(step.now) - step.now);
    const auto members = noticed(job);
    auto text = "preempted" + reason_text(members) + ": " + std::to_string(save.saved_count()) +
                " of " + ranks_text(save.rank_count()) + " saved step " +
                std::to_string(save.saved_step()) + " in " +
                short_seconds(step.now - save.agreed_at()) + ", " + left + " were left";
    const bool ends_job = !goes_on(job);
    end_save(step, ends_job ? control::SaveState::ending : control::SaveState::saved);
    if (ends_job) return end_as_saved(step, text);
    job.round->saved = text;
    step.say("running", text);
    for (auto* member : members)
        answer(step, *member, text);
}

/// Called after each change of the agreement.
void follow_save(JobStep& step) {
    auto& job = step.job;
    auto& state = std::get<Running>(job.state);
    const auto& save = *state.save;
    state.known_save = save.point();
    switch (save.state()) {
        case SaveAgreement::State::proposed: return send_point(step);
        case SaveAgreement::State::agreed:
            send_point(step);
            return step.say(
                "running",
                "preemption notice" + reason_text(noticed(job)) + ", " +
                    short_seconds(*state.save_ends_at - step.now) +
                    " left: " + ranks_text(save.rank_count()) + " save at step " +
                    std::to_string(save.point().step) + silent_text(job, save));
        case SaveAgreement::State::saved: return conclude(step);
        case SaveAgreement::State::failed: {
            const auto why = save.failure();
            return give_up(step, why);
        }
    }
}

}  // namespace
}  // namespace preemption

bool is_newer(const control::SavePoint& save, const std::optional<control::SavePoint>& known) {
    return !known || std::tuple{save.ballot, save.state} > std::tuple{known->ballot, known->state};
}

void on_notice(JobStep& step, Member& member, const control::Notice& notice) {
    auto& job = step.job;
    if (job.is<Over>() || member.is_leaving()) return;
    const auto margin = std::min(limits::save_margin, notice.left / 4);
    member.notice = GivenNotice{
        notice.reason,
        notice.signal,
        step.now + notice.left - margin,
        notice.asked,
        notice.ends_job,
        notice.round};
    step.note(
        "preemption notice of node " + member.name() + " (" + notice.reason + "), " +
        preemption::short_seconds(notice.left) + " left");
    if (job.is<Running>()) begin_save_if_noticed(step);
}

void on_save_report(JobStep& step, Member& member, const control::SaveReport& report) {
    auto& job = step.job;
    if (auto* recovering = std::get_if<Recovering>(&job.state)) {
        const bool is_of_round =
            job.round && member.group_rank && report.round == job.round->number;
        if (is_of_round)
            recovering->save_reports[static_cast<std::size_t>(*member.group_rank)] = report;
        else
            ++job.history.stale_count;
        step.has_changed = false;
        return;
    }
    auto* state = std::get_if<Running>(&job.state);
    const bool is_meant =
        state && state->save && member.group_rank && report.round == job.round->number;
    step.has_changed = is_meant;
    if (!is_meant) {
        ++job.history.stale_count;
        return;
    }
    const auto rank = static_cast<std::size_t>(*member.group_rank);
    step.has_changed = state->save->on_report(rank, report, step.now);
    if (step.has_changed) preemption::follow_save(step);
}

void forget_notice(JobStep& step, Member& member) {
    auto& job = step.job;
    member.notice.reset();
    auto* state = std::get_if<Running>(&job.state);
    if (state && state->save && preemption::noticed(job).empty())
        preemption::end_save(step, control::SaveState::cancelled);
}

void on_gone_from_save(JobStep& step, std::size_t group_rank) {
    auto* state = std::get_if<Running>(&step.job.state);
    if (state && state->save && state->save->on_gone(group_rank, step.now))
        preemption::follow_save(step);
}

std::optional<std::string> saved_while_recovering(const JobData& job, Instant now) {
    const auto* state = std::get_if<Recovering>(&job.state);
    const bool is_agreed =
        state && state->known_save && state->known_save->state == control::SaveState::agreed;
    if (!is_agreed) return std::nullopt;
    SaveAgreement save{preemption::nodes_of(*job.round), std::nullopt, state->known_save, now};
    for (const auto& [rank, report] : state->save_reports)
        save.on_report(rank, report, now);
    if (save.state() != SaveAgreement::State::saved) return std::nullopt;
    return "preempted: " + std::to_string(save.saved_count()) + " of " +
           preemption::ranks_text(save.rank_count()) + " saved step " +
           std::to_string(save.saved_step());
}

void recover_save(JobStep& step, Member& member, const control::Resume& resume) {
    using control::SaveState;
    auto& job = step.job;
    auto& state = std::get<Recovering>(job.state);
    if (resume.save_report) on_save_report(step, member, *resume.save_report);
    step.has_changed = true;
    if (!resume.save || !is_newer(*resume.save, state.known_save)) return;
    state.known_save = resume.save;
    const auto text =
        "preempted: every rank has saved, from step " + std::to_string(resume.save->step) + " on";
    if (resume.save->state == SaveState::saved) job.round->saved = text;
    if (resume.save->state == SaveState::ending) end_as_saved(step, text);
}

void end_notices_of_drained(JobStep& step) {
    using namespace preemption;
    for (auto* member : step.job.members.by_arrival())
        if (member->notice && member->drain_reason && !member->group_rank)
            answer(step, *member, "a new round has begun without this node");
}

void begin_save_if_noticed(JobStep& step) {
    auto& job = step.job;
    auto& state = std::get<Running>(job.state);
    const auto members = preemption::noticed(job);
    if (members.empty()) return;
    std::optional<std::uint64_t> asked;
    for (const auto* member : members) {
        const auto& notice = *member->notice;
        state.save_ends_at = earliest(state.save_ends_at, notice.ends_at);
        const bool counts = notice.asked && notice.round == job.round->number;
        if (counts) asked = std::max(asked.value_or(*notice.asked), *notice.asked);
    }
    if (state.save) return;
    if (const auto* older = preemption::older_member(job))
        return preemption::give_up(
            step, "node " + older->name() + " runs an older release of ddprun");
    state.save.emplace(preemption::nodes_of(*job.round), asked, state.known_save, step.now);
    preemption::follow_save(step);
}

void settle_orphaned_save(const JobStep& step) {
    const auto& state = std::get<Running>(step.job.state);
    if (state.save || !state.known_save) return;
    if (state.known_save->state == control::SaveState::agreed) return preemption::send_point(step);
    preemption::end_save(step, control::SaveState::cancelled);
}

void repeat_save(const JobStep& step, const Member& member) {
    const auto* state = std::get_if<Running>(&step.job.state);
    if (!state || !state->known_save || member.version() < control::save_since) return;
    step.send(member, preemption::order_of(step));
}

void end_save_if_due(JobStep& step) {
    auto& job = step.job;
    auto* state = std::get_if<Running>(&job.state);
    if (!state || !state->save_ends_at || step.now < *state->save_ends_at) return;
    const auto why = state->save ? preemption::missing_text(job, *state->save) : std::string{};
    preemption::give_up(step, why);
}

void end_as_saved(JobStep& step, const std::string& reason) {
    auto& job = step.job;
    control::Cause cause;
    cause.kind = control::Cause::Kind::cancelled;
    cause.reason = reason;
    cause.round = job.round->number;
    job.causes.cancel = cause;
    job.causes.is_saved = true;
    if (job.is_round_going_on()) {
        stop_round(step, cause, SIGTERM);
        return;
    }
    if (job.is<Draining>()) step.say("draining", reason);
}

}  // namespace ddprun::coordinator
