// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <variant>

/// What commands ask of an agent, and what it knows for their answers.
namespace ddprun::agent {

void Agent::on_stop_commanded(StopCommanded stop, Instant now, Effects& out) {
    if (fate() != Fate::open) return;
    const auto grace = stop.grace.value_or(config_.join.settings.grace);
    NodeLeaving::JobEnd command{std::move(stop.reason), stop.grace};
    if (leaving_) return end_job_instead(std::move(command), grace, now, out);
    leave(NodeLeaving{SIGTERM, std::move(command)}, false, now, out);
}

/// This node leaves alone, and the other nodes would go on.
void Agent::end_job_instead(
    NodeLeaving::JobEnd command, Duration grace, Instant now, Effects& out) {
    leaving_->command = std::move(command);
    leaving_->is_reported = false;
    leaving_->result_deadline.reset();
    report_to_server(now, out);
    // The workers have their signal already: only the grace may be shorter.
    if (has_workers())
        return notify_group(
            WorkerGroup::StopRequested{leaving_->signal, grace, std::nullopt}, now, out);
    wait_for_result(now, out);
}

/// The answer is the server's.
void Agent::pass_on(int id, control::AgentMessage message, Effects& out) {
    if (link_.is_admitted()) return send(std::move(message), out);
    out.push_back(AnswerCommand{id, false, "this node has just lost its connection to the server"});
}

/// As SIGTERM, but that a command is the reason. It is repeated after a resume.
void Agent::on_drain_order(const control::DrainOrder& order, Instant now, Effects& out) {
    if (leaving_ || ending_ || (notice_ && notice_->is_drain) || is_ending_as_saved())
        return note_stale("drain order", out);
    out.push_back(NoteDrained{order.reason});
    // It leaves already, and is to be known as drained.
    if (notice_) {
        notice_->reason = order.reason;
        notice_->is_drain = true;
        return;
    }
    const auto grace = config_.join.settings.grace;
    const auto& plan = config_.preemption;
    if (is_saved_before({SIGTERM}))
        return give_notice(
            {SIGTERM, order.reason, now + plan.window(grace), now + plan.whole(grace), true},
            now,
            out);
    NodeLeaving leaving{SIGTERM};
    leaving.why = order.reason;
    leaving.by = NodeLeft::By::drain;
    leave(std::move(leaving), false, now, out);
}

Agent::Fate Agent::fate() const {
    const bool is_job_end = leaving_ && (leaving_->ends_job() || leaving_->has_interrupted_server);
    const bool has_result = ending_ && std::holds_alternative<control::JobResult>(*ending_);
    if (is_job_end || has_result) return Fate::job_ends;
    return ending_ ? Fate::node_ends : Fate::open;
}

std::string Agent::incarnation() const {
    const auto& membership = link_.membership();
    return membership ? membership->welcome.incarnation : std::string{};
}

std::string Agent::reason() const {
    if (leaving_) return leaving_->reason(node_.host);
    if (phase_ == Phase::stopping && round_) return round_->stop_reason;
    return phase_ == Phase::joining ? standby_reason_ : std::string{};
}

}  // namespace ddprun::agent
