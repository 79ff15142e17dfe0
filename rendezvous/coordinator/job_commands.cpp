// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/job_commands.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/ending.hpp"
#include "rendezvous/coordinator/node_drain.hpp"
#include "rendezvous/coordinator/resize.hpp"
#include "rendezvous/coordinator/worker_orders.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace job_commands {
namespace {

using Outcome = control::JobCommandAnswer::Outcome;

void answer(JobStep& step, const JobCommanded& commanded, Outcome outcome, std::string text) {
    answer_command(step, commanded, {outcome, std::move(text)});
}

/// Why the job cannot be stopped like this; empty when it can.
std::string objection_to_stop(const JobData& job, const control::JobCommand& command) {
    if (job.is<Over>()) return "the job is over: " + job.history.said.reason;
    const auto grace = job.terms.settings.grace;
    if (command.grace && *command.grace > grace)
        return "--grace=" + seconds_text(*command.grace) + " is longer than the job's own (" +
               seconds_text(grace) + ", its --shutdown-timeout)";
    return {};
}

void stop(JobStep& step, const JobCommanded& commanded) {
    const auto& job = step.job;
    const auto& command = commanded.command;
    if (auto why = objection_to_stop(job, command); !why.empty())
        return answer(step, commanded, Outcome::not_possible, std::move(why));
    if (job.causes.cancel) return answer(step, commanded, Outcome::done, "it is stopping already");
    const auto grace = command.grace.value_or(job.terms.settings.grace);
    answer(step, commanded, Outcome::done, "its workers have " + seconds_text(grace) + " to end");
    on_interrupted(
        step,
        {control::Cause::Kind::cancelled, SIGTERM, "stopped by " + commanded.by, command.grace});
}

void drain(JobStep& step, const JobCommanded& commanded) {
    const auto& command = commanded.command;
    const auto plan = plan_drain(step.job, {0, command.nodes, command.is_forced, commanded.by});
    answer(step, commanded, plan.is_possible ? Outcome::done : Outcome::not_possible, plan.text);
    perform(step, plan);
}

void undrain(JobStep& step, const JobCommanded& commanded) {
    const auto plan = plan_undrain(step.job, {0, commanded.command.nodes, commanded.by});
    answer(step, commanded, plan.is_possible ? Outcome::done : Outcome::not_possible, plan.text);
    perform(step, plan);
}

void resize(JobStep& step, const JobCommanded& commanded) {
    const auto& range = commanded.command.range;
    if (!range)
        return answer(step, commanded, Outcome::not_possible, "no number of nodes is given");
    const auto plan = plan_resize(step.job, {0, *range, commanded.by}, step.now);
    answer(step, commanded, plan.is_possible ? Outcome::done : Outcome::not_possible, plan.text);
    perform(step, plan);
}

control::NodeSummary summary_of_node(const NodeStatus& node) {
    return {
        node.host,
        node.nonce,
        node.pid,
        node.state,
        node.group_rank,
        node.first_rank,
        node.last_rank,
        from_seconds(std::max(node.heard_ago_s, 0.0))};
}

}  // namespace
}  // namespace job_commands

void on_commanded(JobStep& step, const JobCommanded& commanded) {
    using What = control::JobCommand::What;
    switch (commanded.command.what) {
        case What::stop: return job_commands::stop(step, commanded);
        case What::drain: return job_commands::drain(step, commanded);
        case What::undrain: return job_commands::undrain(step, commanded);
        case What::resize: return job_commands::resize(step, commanded);
        case What::signal:
        case What::stacks: return begin_orders(step, commanded);
        case What::show: break;
    }
    contradiction("a command that changes nothing is for no job", __FILE__, __LINE__);
}

void answer_command(
    JobStep& step, const JobCommanded& commanded, control::JobCommandAnswer answer) {
    step.out.push_back(Commanded{
        step.job.identity.run_id,
        control::describe(commanded.command),
        commanded.by,
        answer.outcome,
        answer.text});
    step.out.push_back(Send{commanded.connection, std::move(answer)});
}

void close_command(JobStep& step, const JobCommanded& commanded) {
    step.out.push_back(Close{commanded.connection, "a command was answered"});
}

bool is_for_workers(control::JobCommand::What what) {
    return what == control::JobCommand::What::signal || what == control::JobCommand::What::stacks;
}

std::string sender_text(const std::string& address, const std::string& stated) {
    auto text = "ddprunctl at " + address;
    const auto name = printable_line(beginning_of(stated, limits::max_stated_name_bytes));
    return name.empty() ? text : text + " (stated: " + name + ")";
}

control::JobSummary summary_of(const JobStatus& status, bool has_nodes) {
    control::JobSummary summary;
    summary.run_id = status.run_id;
    summary.incarnation = status.incarnation;
    summary.state = status.state;
    summary.reason = status.reason;
    summary.round = status.round;
    summary.nnodes = status.nnodes;
    summary.node_count = static_cast<int>(status.node_count);
    summary.world_size = status.world_size;
    summary.restarts_used = status.restarts_used;
    summary.max_restarts = status.max_restarts;
    summary.root_cause = status.root_cause;
    if (!has_nodes) return summary;
    for (const auto& node : status.nodes) {
        if (summary.nodes.size() == limits::max_summary_nodes) break;
        summary.nodes.push_back(job_commands::summary_of_node(node));
    }
    for (const auto& [host, reason] : status.drained_hosts) {
        if (summary.drained_hosts.size() == limits::max_summary_drained) break;
        summary.drained_hosts.push_back({host, reason});
    }
    return summary;
}

}  // namespace ddprun::coordinator
