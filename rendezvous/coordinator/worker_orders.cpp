// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/worker_orders.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/job_commands.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun::coordinator {
namespace worker_orders {
namespace {

using What = control::WorkerOrder::What;
using Kind = OrderEnd::Kind;

bool is_look(const control::JobCommand& command) {
    return command.what == control::JobCommand::What::stacks;
}

/// The ranks that are meant. Requires: there is a round.
control::RankRange ranks_of(const JobData& job, const control::JobCommand& command) {
    const int last = job.round->world_size - 1;
    auto ranks = command.ranks.value_or(control::RankRange{0, last});
    ranks.last = std::min(ranks.last, last);
    return ranks;
}

/// Why no worker of the job can be reached by this command; empty: some can.
std::string objection(const JobData& job, const control::JobCommand& command) {
    if (job.is<Over>()) return "the job is over: " + job.history.said.reason;
    if (job.is<Recovering>())
        return "the server has just taken the job up, and waits for its nodes: try again when it "
               "runs";
    if (!job.has_current_round()) return "no worker runs now: " + job.history.said.reason;
    if (!is_look(command) && command.signal == 0) return "no signal is given";
    const auto ranks = ranks_of(job, command);
    if (ranks.first > ranks.last)
        return "there is no rank " + std::to_string(ranks.first) + ": the job has " +
               control::describe(control::RankRange{0, job.round->world_size - 1});
    const auto count = static_cast<std::size_t>(ranks.last - ranks.first) + 1;
    if (is_look(command) && count > limits::max_ordered_stacks)
        return "these are " + std::to_string(count) + " workers, and one command shows at most " +
               std::to_string(limits::max_ordered_stacks) + ": name some by --ranks=FIRST-LAST";
    if (job.commands.open.size() >= limits::max_open_commands)
        return "it waits for the agents with " + std::to_string(job.commands.open.size()) +
               " other commands: try again";
    return {};
}

/// Why this node gets no order.
std::optional<OrderEnd> reason_not_to_send(const Member* member) {
    if (member == nullptr || !member->is_connected)
        return OrderEnd{Kind::unsent, "its node has no connection to the server now"};
    if (member->version() < control::orders_since)
        return OrderEnd{Kind::refused, "its node runs an older release of ddprun"};
    return std::nullopt;
}

void report(JobStep& step, const OpenCommand& open, const OpenOrder& order) {
    if (open.what() == What::stack)
        step.out.push_back(Send{
            open.commanded.connection,
            control::RankReport{order.ranks.first, std::nullopt, missing_text(order)}});
}

/// Sends the order for these ranks of one node. `place`: null where no node with them is known.
void order(JobStep& step, OpenCommand& open, const Place* place, control::RankRange ranks) {
    auto& job = step.job;
    const auto* member = place == nullptr ? nullptr : std::as_const(job.members).find(place->nonce);
    const auto host = place == nullptr ? std::string{"an unknown node"} : place->host;
    OpenOrder order{++job.commands.last_order, {}, host, ranks, reason_not_to_send(member)};
    if (order.end) {
        report(step, open, order);
    } else {
        order.connection = member->connection.connection;
        step.send(
            *member,
            control::WorkerOrder{
                order.id,
                job.round->number,
                open.what(),
                open.commanded.command.signal,
                ranks,
                open.commanded.by});
    }
    open.add(std::move(order));
}

/// Those of the ranks that the command is for.
void order_wanted(
    JobStep& step,
    OpenCommand& open,
    const Place* place,
    control::RankRange ranks,
    const control::RankRange& wanted) {
    ranks = {std::max(ranks.first, wanted.first), std::min(ranks.last, wanted.last)};
    if (ranks.first > ranks.last) return;
    if (open.what() == What::signal) return order(step, open, place, ranks);
    for (int rank = ranks.first; rank <= ranks.last; ++rank)
        order(step, open, place, {rank, rank});
}

void refuse(JobStep& step, const JobCommanded& commanded, std::string why) {
    answer_command(
        step, commanded, {control::JobCommandAnswer::Outcome::not_possible, std::move(why)});
    close_command(step, commanded);
}

void finish(JobStep& step, const OpenCommand& open) {
    for (const auto& order : open.orders)
        if (!order.end) report(step, open, order);
    answer_command(step, open.commanded, open.answer());
    close_command(step, open.commanded);
}

}  // namespace
}  // namespace worker_orders

void begin_orders(JobStep& step, JobCommanded commanded) {
    using namespace worker_orders;
    auto& job = step.job;
    step.has_changed = false;
    if (auto why = objection(job, commanded.command); !why.empty())
        return refuse(step, commanded, std::move(why));
    const auto ranks = ranks_of(job, commanded.command);
    OpenCommand open{std::move(commanded), step.now + limits::worker_order_timeout};
    // In a round that was recovered, nodes that have not come back have no place here, and the
    // ranks of the others were stated by peers: each rank gets one order all the same.
    int next = 0;
    for (const auto& [group_rank, place] : job.round->places.taken()) {
        order_wanted(step, open, nullptr, {next, place.rank_base - 1}, ranks);
        const int first = std::max(next, place.rank_base);
        next = std::max(next, place.rank_base + place.nproc);
        order_wanted(step, open, &place, {first, next - 1}, ranks);
    }
    order_wanted(step, open, nullptr, {next, job.round->world_size - 1}, ranks);
    if (open.is_complete()) return finish(step, open);
    job.commands.open.push_back(std::move(open));
}

void on_worker_answer(JobStep& step, const Member& member, const control::WorkerAnswer& answer) {
    using namespace worker_orders;
    auto& job = step.job;
    step.has_changed = false;
    for (auto open = job.commands.open.begin(); open != job.commands.open.end(); ++open) {
        auto* order = open->find(answer, member.connection.connection);
        if (order == nullptr) continue;
        const bool is_stack = open->what() == What::stack;
        const bool is_seen = is_stack && answer.stack && answer.stack->rank == order->ranks.first;
        const bool is_done = answer.is_done && (is_seen || !is_stack);
        open->end(
            *order,
            {is_done ? Kind::done : Kind::refused,
             std::string{beginning_of(answer.text, limits::max_order_text_bytes)}});
        if (is_done && is_seen)
            step.out.push_back(Send{
                open->commanded.connection, control::RankReport{answer.stack->rank, answer.stack}});
        else
            report(step, *open, *order);
        if (!open->is_complete()) return;
        finish(step, *open);
        job.commands.open.erase(open);
        return;
    }
    ++job.history.stale_count;
}

void end_orders_if_due(JobStep& step) {
    std::erase_if(step.job.commands.open, [&](const OpenCommand& open) {
        if (step.now < open.ends_at) return false;
        worker_orders::finish(step, open);
        return true;
    });
}

bool drop_command(JobData& job, ConnectionId caller) {
    return std::erase_if(job.commands.open, [&](const OpenCommand& open) {
               return open.commanded.connection == caller;
           }) > 0;
}

std::optional<Instant> next_order_deadline(const JobData& job) {
    // All commands have the same time, so the first one ends first.
    if (job.commands.open.empty()) return std::nullopt;
    return job.commands.open.front().ends_at;
}

}  // namespace ddprun::coordinator
