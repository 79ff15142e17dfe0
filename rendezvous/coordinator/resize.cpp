// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/resize.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/voter_roll.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace ddprun::coordinator {
namespace resizing {
namespace {

std::string option(const control::NodeRange& range) {
    return "--nnodes=" + control::describe(range);
}

/// The server and the store of a job of one node may listen on its machine alone, and the node has
/// no lease.
bool may_have(const control::NodeRange& started, const control::NodeRange& wanted) {
    if (started.max > 1) return true;
    return wanted.max == 1 && (wanted.spares == 0 || started.spares > 0);
}

/// Why a job can never have this number of nodes; empty when it can.
std::string objection_to_range(const ResizeFacts& facts, const control::NodeRange& wanted) {
    if (facts.is_static) return "a job of static rendezvous has a fixed place for each node";
    if (!may_have(facts.started, wanted))
        return "a job that was started with " + option(facts.started) +
               (facts.started.spares == 0 ? " cannot have other nodes"
                                          : " has rounds of one node only");
    const int unit = facts.started.unit.value_or(1);
    if (wanted.min % unit != 0 || wanted.max % unit != 0)
        return option(wanted) + " has sizes that are no multiple of " + std::to_string(unit) +
               " (--node-unit)";
    return {};
}

/// The round is smaller or larger than it may be.
bool is_outside(const control::NodeRange& wanted, std::size_t size) {
    return size < static_cast<std::size_t>(wanted.min) ||
           size > static_cast<std::size_t>(wanted.max);
}

/// The nodes of the next round, or of this one if it goes on. A silent node may be heard again.
std::size_t next_size(
    const ResizeFacts& facts, const control::NodeRange& wanted, std::size_t size) {
    const auto count =
        is_outside(wanted, size)
            ? facts.present
            : std::max(static_cast<std::size_t>(wanted.min), size - facts.leaving + facts.waiting);
    return wanted.in_units(std::min(static_cast<std::size_t>(wanted.max), count));
}

std::string objection_to_restart(const ResizeFacts& facts) {
    if (facts.has_successes)
        return "the first workers have finished: the job does not restart with another size";
    if (facts.is_saving)
        return "all ranks save now, because a node is taken away: try again after that";
    return {};
}

/// The nodes of the round that are about to leave.
std::size_t leaving_count(const JobData& job) {
    const auto all = job.members.by_arrival();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const Member* member) {
        return member->group_rank && (!member->stays() || member->notice);
    }));
}

/// The group rank of the node with which the job would be lost; none: it has none, or there is no
/// such node.
std::optional<std::size_t> rank_of_server(const JobData& job) {
    if (!is_lost_with_server(job)) return std::nullopt;
    for (const auto& [rank, place] : job.round->places.taken())
        if (const auto* member = job.members.find(place.nonce);
            member != nullptr && is_node_of_server(job, *member))
            return rank;
    return std::nullopt;
}

ResizeFacts facts_of(const JobData& job) {
    ResizeFacts facts;
    facts.started = job.terms.nodes;
    facts.is_static = job.terms.settings.is_static;
    const auto all = job.members.by_arrival();
    facts.present = static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [](const Member* member) { return member->is_present(); }));
    const auto* running = std::get_if<Running>(&job.state);
    if (running == nullptr) return facts;
    facts.in_round = job.round->places.size();
    facts.host_rank = rank_of_server(job);
    facts.leaving = leaving_count(job);
    facts.waiting = job.waiting_count();
    facts.has_successes = job.has_successes();
    facts.is_saving = running->save.has_value();
    return facts;
}

/// Why the job cannot be resized now, whatever the number; empty when it can.
std::string objection_now(const JobData& job, Instant now) {
    const bool ends = job.is<Over>() || job.causes.cancel ||
                      (job.is<Draining>() && verdict_so_far(job, now).next == Verdict::Next::over);
    if (ends) return "the job is ending: " + job.history.said.reason;
    if (job.is<Recovering>())
        return "the server has just taken the job up, and waits for its nodes: try again when it "
               "runs";
    for (const auto* member : job.members.by_arrival())
        if (member->version() < control::resize_since)
            return member->name() +
                   " runs an older release of ddprun, which changes the size of no job";
    if (job.size.resized && job.size.resized->count >= limits::max_resizes)
        return "it was resized " + std::to_string(limits::max_resizes) + " times";
    return {};
}

/// A member that states what no server has sent must not change the job.
bool is_possible(const JobData& job, const control::Resized& resized) {
    return resized.nodes.unit == job.terms.nodes.unit && !job.terms.settings.is_static &&
           may_have(job.terms.nodes, resized.nodes);
}

}  // namespace
}  // namespace resizing

ResizeDecision decide_resize(const ResizeFacts& facts, const control::NodeRange& wanted) {
    using namespace resizing;
    using Kind = ResizeDecision::Kind;
    if (auto why = objection_to_range(facts, wanted); !why.empty())
        return {Kind::refused, std::move(why)};
    if (facts.present < static_cast<std::size_t>(wanted.min))
        return {
            Kind::refused,
            option(wanted) + " needs " + counted(static_cast<std::size_t>(wanted.min), "node") +
                ", and there " + (facts.present == 1 ? "is " : "are ") +
                std::to_string(facts.present)};
    if (!facts.in_round) return {Kind::next_round, option(wanted) + " from the next round on"};
    const auto size = *facts.in_round;
    const auto next = next_size(facts, wanted, size);
    // A node that leaves ends the round itself.
    if (!is_outside(wanted, size) && next <= size)
        return {Kind::kept, option(wanted) + ": the job goes on with " + counted(next, "node")};
    if (auto why = objection_to_restart(facts); !why.empty())
        return {Kind::refused, std::move(why)};
    return {
        Kind::restarted,
        option(wanted) + ": the job restarts with " + counted(next, "node") + " instead of " +
            std::to_string(size) + (next < size ? "; the highest group ranks stand by" : "") +
            (facts.host_rank && *facts.host_rank >= next
                 ? ", and with them the node that serves the rendezvous: do not end it"
                 : "")};
}

ResizePlan plan_resize(const JobData& job, const control::Resize& resize, Instant now) {
    using namespace resizing;
    if (auto why = objection_now(job, now); !why.empty()) return {false, std::move(why)};
    auto wanted = resize.nodes;
    wanted.unit = job.terms.nodes.unit;
    auto [kind, text] = decide_resize(facts_of(job), wanted);
    return {
        kind != ResizeDecision::Kind::refused,
        std::move(text),
        {job.size.resized ? job.size.resized->count + 1 : 1, wanted},
        kind == ResizeDecision::Kind::restarted,
        "resized to " + option(wanted) + " by " + resize.by};
}

void perform(JobStep& step, const ResizePlan& plan) {
    if (!plan.is_possible) return;
    auto& job = step.job;
    job.size.resized = plan.resized;
    job.size.is_new = true;
    for (const auto* member : job.members.by_arrival())
        send_size(step, *member);
    if (!plan.restarts) return step.note(plan.reason);
    control::Cause cause;
    cause.kind = control::Cause::Kind::resized;
    cause.round = job.round->number;
    cause.reason = plan.reason;
    stop_round(step, cause, SIGTERM);
}

void on_resize(JobStep& step, const Member& sender, const control::Resize& resize) {
    const auto plan = plan_resize(step.job, resize, step.now);
    step.send(sender, control::DrainAnswer{resize.id, plan.is_possible, plan.text});
    perform(step, plan);
}

void send_size(const JobStep& step, const Member& member) {
    const auto& resized = step.job.size.resized;
    if (resized && member.version() >= control::resize_since) step.send(member, *resized);
}

void repeat_size(const JobStep& step, const control::Resume& resume) {
    const auto* member = step.job.members.find(resume.join.node.nonce);
    if (member != nullptr && resume.resized != step.job.size.resized) send_size(step, *member);
}

void restore_size(JobStep& step, const control::Resume& resume) {
    auto& job = step.job;
    const auto& reported = resume.resized;
    if (!reported || !resizing::is_possible(job, *reported)) return;
    if (job.size.resized && job.size.resized->count >= reported->count) return;
    job.size.resized = reported;
    // Members that have come back before may have an older number.
    for (const auto* member : job.members.by_arrival())
        if (member->nonce() != resume.join.node.nonce) send_size(step, *member);
}

}  // namespace ddprun::coordinator
