// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/versions.hpp"

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

void Agent::give_notice(int signal, Instant ends_at, Instant now, Effects& out) {
    const auto source =
        signal == 0 ? std::string{"the end of the allocation"} : signal_name(signal);
    notice_ = NodeNotice{signal, source + " on " + node_.host, ends_at};
    out.push_back(NoteNotice{notice_->reason, ends_at - now});
    report_to_server(now, out);
}

/// The rest of the time is for an orderly stop.
void Agent::end_notice(const std::string& reason, Instant now, Effects& out) {
    out.push_back(NoteNoticeOver{reason});
    NodeLeaving leaving{SIGTERM};
    leaving.why = notice_->reason;
    leave(std::move(leaving), false, now, out);
}

void Agent::on_allocation_ending(Instant now, Effects& out) {
    notice_at_.reset();
    if (notice_ || leaving_ || ending_) return;
    give_notice(0, now + limits::slurm_save_lead, now, out);
}

void Agent::report_notice(Instant now, Effects& out) {
    if (!notice_ || notice_->is_reported || leaving_ || ending_) return;
    notice_->is_reported = true;
    if (link_.version() < control::save_since)
        return end_notice("the rendezvous server is of an older release of ddprun", now, out);
    control::Notice notice;
    notice.reason = notice_->reason;
    notice.signal = notice_->signal;
    notice.left = std::max(notice_->ends_at - now, Duration{});
    if (round_) notice.asked = round_->save.asked();
    notice.ends_job = is_hosting_;
    send(std::move(notice), out);
}

void Agent::report_save(Effects& out) {
    const bool has_ranks =
        phase_ == Phase::starting || phase_ == Phase::running || phase_ == Phase::succeeded;
    if (!has_ranks || !has_workers() || link_.version() < control::save_since) return;
    auto& save = round_->save;
    auto report = save.report(round_->assignment.round, *group());
    if (!report || report == save.reported) return;
    save.reported = report;
    send(std::move(*report), out);
}

void Agent::on_save_at(const control::SaveAt& order, Effects& out) {
    const bool is_meant = is_current(order.round) && has_workers() && phase_ != Phase::stopping &&
                          order.save.step <= limits::highest_save_step;
    if (!is_meant) return note_stale("save at round " + std::to_string(order.round), out);
    auto& save = round_->save;
    // Asked again, it is answered again.
    save.reported.reset();
    if (!save.on_order(order.save)) return;
    out.push_back(ShowSave{order.round, order.save});
    if (order.save.state == control::SaveState::agreed) out.push_back(NoteSave{order.save.step});
}

void Agent::on_notice_over(const control::NoticeOver& over, Instant now, Effects& out) {
    if (!notice_) return note_stale("notice over", out);
    end_notice(over.reason, now, out);
}

}  // namespace ddprun::agent
