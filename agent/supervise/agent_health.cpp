// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"

#include <csignal>
#include <utility>

/// The part of `Agent` that has this node checked, and leaves the job when it is unfit.
namespace ddprun::agent {

void Agent::check_health(CheckHealth::Reason reason, Effects& out) {
    if (checking_) return;
    checking_ = reason;
    out.push_back(CheckHealth{reason});
}

/// Also after a failure that only followed one elsewhere, and one that is still being explained:
/// which node is at fault is not known yet.
void Agent::check_health_after_round(Effects& out) {
    const auto& failures = round_->failures;
    const bool has_failed = failures.has_failure() || failures.is_open();
    if (config_.health_check.empty() || !has_failed) return;
    check_health(
        failures.has_hung() ? CheckHealth::Reason::hang : CheckHealth::Reason::failure, out);
}

void Agent::on_health_checked(HealthChecked checked, Instant now, Effects& out) {
    using Answer = HealthChecked::Answer;
    const auto reason = std::exchange(checking_, std::nullopt);
    if (!reason || leaving_ || ending_) return;
    const bool is_start = *reason == CheckHealth::Reason::start;
    if (checked.answer == Answer::unfit) {
        NodeLeaving leaving{SIGTERM};
        leaving.why = node_.host + " is unfit: " + checked.text;
        leaving.by = NodeLeft::By::unfit;
        out.push_back(NoteUnfit{leaving.why});
        return leave(std::move(leaving), false, now, out);
    }
    // Before the job it is a mistake of the command line.
    if (checked.answer == Answer::not_run && is_start)
        return end(NodeRefused{"--health-check: " + checked.text}, now, out);
    if (checked.answer != Answer::fit) out.push_back(NoteHealthUnknown{std::move(checked.text)});
    if (is_start) notify_link(ServerLink::ConnectRequested{}, now, out);
}

/// A failure that is still being explained is reported before.
bool Agent::is_ready() const {
    return round_->reached.is_ready && !round_->failures.is_open() && !checking_;
}

}  // namespace ddprun::agent
