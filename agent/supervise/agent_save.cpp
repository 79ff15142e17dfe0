// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/versions.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

/// The part of `Agent` in which all ranks save the same step before this node is taken away.
namespace ddprun::agent {

/// Whether the workers run on after this signal, so that they save. A node of which no rank calls
/// `should_save`, and no option says that one will, stops at once.
bool Agent::is_saved_before(const Signalled& signalled) const {
    const auto& plan = config_.preemption;
    const int signal = signalled.signal;
    const bool is_notice = plan.signal != 0 && signal == plan.signal;
    if (notice_) return is_notice || (signal == SIGTERM && notice_->signal == SIGTERM);
    // The workers ignore the signal of a notice; of any other they may be ending already.
    if (!is_notice && (signal != SIGTERM || signalled.is_for_all_processes)) return false;
    if (phase_ != Phase::starting && phase_ != Phase::running) return false;
    if (plan.window(config_.join.settings.grace) == Duration{}) return false;
    return plan.is_expected() || has_asking_workers_;
}

/// A later one counts where it has an earlier end: a scheduler repeats itself.
void Agent::give_notice(NodeNotice notice, Instant now, Effects& out) {
    if (notice_ && notice_->ends_at <= notice.ends_at) return;
    if (notice_) {
        notice.killed_at = std::min(notice.killed_at, notice_->killed_at);
        notice.is_drain = notice.is_drain || notice_->is_drain;
    }
    notice_ = std::move(notice);
    out.push_back(NoteNotice{notice_->reason, notice_->ends_at - now});
    report_to_server(now, out);
}

/// Of the workers, once they are signalled.
Duration Agent::grace_left(Instant now) const {
    const auto grace = config_.join.settings.grace;
    return notice_ ? std::clamp(notice_->killed_at - now, Duration{}, grace) : grace;
}

/// Until its result is there: the server that has decided this may be replaced.
bool Agent::is_ending_as_saved() const {
    if (!round_) return false;
    const auto& point = round_->save.point();
    return point && point->state == control::SaveState::ending;
}

/// For ranks that wait at a step that is only proposed: they are being stopped. What the server
/// decides of the proposal holds for the others.
void Agent::withdraw_proposal(Effects& out) {
    const auto& point = round_->save.point();
    if (!point || point->state != control::SaveState::proposed) return;
    out.push_back(ShowSave{
        round_->assignment.round, {point->ballot, point->step, control::SaveState::cancelled}});
}

/// The rest of the time is for an orderly stop.
void Agent::end_notice(const std::string& reason, Instant now, Effects& out) {
    out.push_back(NoteNoticeOver{reason});
    NodeLeaving leaving{SIGTERM};
    leaving.why = notice_->reason;
    if (notice_->is_drain) leaving.by = NodeLeft::By::drain;
    leave(std::move(leaving), false, now, out);
}

std::optional<Instant> Agent::notice_at() const {
    if (!allocation_stop_at_) return std::nullopt;
    return *allocation_stop_at_ - limits::slurm_save_lead;
}

void Agent::on_allocation_ending(Instant now, Effects& out) {
    const auto ends_at = std::max(*allocation_stop_at_, now);
    allocation_stop_at_.reset();
    if (leaving_ || ending_ || is_ending_as_saved()) return;
    const auto killed_at = ends_at + config_.join.settings.grace;
    give_notice({0, "the end of the allocation on " + node_.host, ends_at, killed_at}, now, out);
}

void Agent::report_notice(Instant now, Effects& out) {
    if (!notice_ || notice_->is_reported || leaving_ || ending_ || is_ending_as_saved()) return;
    notice_->is_reported = true;
    if (link_.version() < control::save_since)
        return end_notice("the rendezvous server is of an older release of ddprun", now, out);
    control::Notice notice;
    notice.reason = notice_->reason;
    notice.signal = notice_->signal;
    notice.left = std::max(notice_->ends_at - now, Duration{});
    if (round_) {
        notice.asked = round_->save.asked();
        notice.round = round_->assignment.round;
    }
    notice.ends_job = is_hosting_;
    send(std::move(notice), out);
}

std::optional<control::SaveReport> Agent::save_report() const {
    const bool has_ranks =
        phase_ == Phase::starting || phase_ == Phase::running || phase_ == Phase::succeeded;
    if (!round_ || !has_ranks || group() == nullptr || link_.version() < control::save_since)
        return std::nullopt;
    return round_->save.report(round_->assignment.round, *group());
}

void Agent::report_save(Effects& out) {
    auto report = save_report();
    auto& save = round_->save;
    if (!report || report == save.reported) return;
    save.reported = report;
    send(std::move(*report), out);
}

void Agent::on_save_at(const control::SaveAt& order, Instant now, Effects& out) {
    using control::SaveState;
    const auto& point = order.save;
    // What all ranks have done also holds of a node whose ranks have ended since.
    const bool is_done = point.state == SaveState::saved || point.state == SaveState::ending;
    const bool has_ranks = has_workers() && phase_ != Phase::stopping;
    const bool is_meant = is_current(order.round) && (is_done || has_ranks) &&
                          point.step <= limits::highest_save_step;
    if (!is_meant) return note_stale("save at round " + std::to_string(order.round), out);
    auto& save = round_->save;
    // Asked again, it is answered again.
    save.reported.reset();
    if (!save.on_order(point) || is_done) return;
    out.push_back(ShowSave{order.round, point, now + order.left});
    if (point.state == SaveState::agreed) out.push_back(NoteSave{point.step});
}

void Agent::on_notice_over(const control::NoticeOver& over, Instant now, Effects& out) {
    if (!notice_) return note_stale("notice over", out);
    end_notice(over.reason, now, out);
}

}  // namespace ddprun::agent
