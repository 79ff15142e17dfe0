// SPDX-License-Identifier: Apache-2.0
#include "agent/command/decision.hpp"

#include "agent/health/stack_text.hpp"
#include "agent/plan/worker_env.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/control/versions.hpp"

#include <string_view>
#include <utility>

namespace ddprun::agent::command {
namespace decision {
namespace {

using Why = control::CommandRefused::Why;

constexpr std::size_t most_ranks_named = 16;

control::CommandRefused refusal(std::string reason) {
    return {Why::not_possible, std::move(reason)};
}

Decision refused(std::string reason) {
    return {refusal(std::move(reason))};
}

/// Ascending ranks: "ranks 0 to 7" when they are consecutive, else "ranks 0, 2".
std::string ranks_text(const std::vector<int>& ranks) {
    const int count = static_cast<int>(ranks.size());
    if (ranks.back() - ranks.front() == count - 1)
        return control::describe(control::RankRange{ranks.front(), ranks.back()});
    return "ranks " +
           short_list(ranks, {most_ranks_named}, [](int rank) { return std::to_string(rank); });
}

Decision decide_stop(const control::StopJob& stop, const NodeFacts& facts) {
    if (facts.fate == Agent::Fate::job_ends)
        return {control::CommandDone{"it is stopping already"}};
    if (facts.fate == Agent::Fate::node_ends)
        return refused(
            "this node has left the job and cannot end it any more; give the command at another "
            "node");
    if (stop.grace && *stop.grace > facts.grace)
        return refused(
            "--grace=" + seconds_text(*stop.grace) + " is longer than the job's own (" +
            seconds_text(facts.grace) + ", its --shutdown-timeout)");
    auto text = "its workers have " + seconds_text(stop.grace.value_or(facts.grace)) + " to end";
    if (!facts.is_connected)
        text += "; this node has no connection to the rendezvous server: others may go on";
    return {control::CommandDone{std::move(text)}, StopOrder{stop.grace}};
}

/// The ranks of this node's workers. Requires: it has an assignment.
control::RankRange ranks_of(const control::NodeView& view) {
    const int first = view.assignment->rank_base;
    return {first, first + view.worker_count - 1};
}

/// Why the command cannot apply to any of these ranks, or, without ranks, to any.
std::optional<Decision> check_ranks(
    std::optional<control::RankRange> ranks,
    const control::NodeView& view,
    const NodeFacts& facts) {
    if (!facts.has_workers || !view.assignment) return refused("no worker runs on this node now");
    if (!ranks) return std::nullopt;
    const int world_size = view.assignment->world_size;
    if (ranks->first >= world_size)
        return refused(
            "there is no rank " + std::to_string(ranks->first) + ": the job has " +
            control::describe(control::RankRange{0, world_size - 1}));
    const auto own = ranks_of(view);
    if (ranks->last < own.first || ranks->first > own.last)
        return refused(
            control::describe(*ranks) + (ranks->first == ranks->last ? " is" : " are") +
            " on another node: this one has " + control::describe(own));
    return std::nullopt;
}

Decision decide_stack(
    const control::ShowStack& order, const control::NodeView& view, const NodeFacts& facts) {
    const control::RankRange wanted{order.rank, order.rank};
    if (auto wrong = check_ranks(wanted, view, facts)) return *wrong;
    return {std::nullopt, StackOrder{order.rank, order.rank - view.assignment->rank_base}};
}

Decision decide_signal(
    const control::SignalWorkers& order, const control::NodeView& view, const NodeFacts& facts) {
    const auto ranks = order.ranks();
    if (auto wrong = check_ranks(ranks, view, facts)) return *wrong;
    const auto own = ranks_of(view);
    SignalOrder wanted{order.signal, {}};
    for (int rank = own.first; rank <= own.last; ++rank)
        if (!ranks || (rank >= ranks->first && rank <= ranks->last))
            wanted.local_ranks.push_back(rank - own.first);
    auto reply = reply_to_signal(order.signal, wanted.local_ranks, view);
    return {std::move(reply), std::move(wanted)};
}

/// `what_is_new`: what a server of an older release does not do, and what to do instead.
Decision decide_to_pass_on(const NodeFacts& facts, int since, std::string_view what_is_new) {
    if (facts.fate == Agent::Fate::job_ends) return refused("the job is ending");
    if (!facts.is_connected)
        return refused(
            "this node has no connection to the rendezvous server now; give the command at another "
            "node");
    if (facts.server_version < since)
        return refused(
            "the rendezvous server is of an older release of ddprun, which " +
            std::string{what_is_new});
    return {std::nullopt, PassOn{}};
}

Decision decide_drain(const NodeFacts& facts) {
    return decide_to_pass_on(
        facts, control::drain_since, "drains no node; end the node by SIGTERM to its ddprun");
}

}  // namespace
}  // namespace decision

control::NodeView view_of(
    const Agent& agent, const AgentConfig& config, const LastServer& server, Instant now) {
    control::NodeView view;
    view.run_id = config.join.run_id;
    view.incarnation = agent.incarnation();
    view.state = name_of(agent.phase());
    view.reason = agent.reason();
    view.host = config.join.node.host;
    view.pid = agent.node().pid;
    view.endpoint = server.endpoint;
    view.page_token = server.page_token;
    view.is_connected = agent.is_connected();
    view.program = entrypoint_name(config.worker);
    view.nodes = agent.nodes();
    view.worker_count = config.worker.nproc;
    if (const auto* assignment = agent.assignment()) {
        view.assignment = *assignment;
        // The reply must contain only data that non-members may have.
        view.assignment->neighbours.clear();
    }
    view.max_restarts = config.join.max_restarts;
    view.since = now - agent.phase_began_at();
    view.age = now - agent.began_at();
    return view;
}

Decision decide(
    const control::Command& command, const control::NodeView& view, const NodeFacts& facts) {
    return std::visit(
        Overloaded{
            [&](control::ShowNode) { return Decision{view}; },
            [&](const control::StopJob& stop) { return decision::decide_stop(stop, facts); },
            [&](const control::SignalWorkers& order) {
                return decision::decide_signal(order, view, facts);
            },
            [&](const control::ShowStack& order) {
                return decision::decide_stack(order, view, facts);
            },
            [&](const control::DrainNodes&) { return decision::decide_drain(facts); },
            [&](const control::UndrainNodes&) { return decision::decide_drain(facts); },
            [&](const control::ResizeJob&) {
                return decision::decide_to_pass_on(
                    facts, control::resize_since, "changes the size of no job");
            },
        },
        command);
}

control::CommandReply reply_to_signal(
    int signal, const std::vector<int>& reached, const control::NodeView& view) {
    if (reached.empty() || !view.assignment)
        return decision::refusal("no worker that is meant runs on " + view.host + " any more");
    std::vector<int> ranks;
    for (const int local_rank : reached)
        ranks.push_back(view.assignment->rank_base + local_rank);
    return control::CommandDone{
        signal_name(signal) + " to " + decision::ranks_text(ranks) + " on " + view.host};
}

control::CommandReply reply_to_stack(
    int rank, const health::Sample& sample, const health::Site& site) {
    if (!sample.is_there()) return decision::refusal("rank " + std::to_string(rank) + " has ended");
    return control::RankStack{
        rank,
        sample.pid,
        std::string{health::in_words(site.activity)},
        site.site,
        site.detail,
        health::stack_text(sample, limits::max_stack_text_bytes)};
}

std::string describe_sender(
    const Sender& sender, const std::string& user_name, const std::string& host) {
    auto text = "ddprunctl (user " + (user_name.empty() ? std::to_string(sender.user) : user_name);
    if (sender.pid > 0) text += ", pid " + std::to_string(sender.pid);
    return text + " on " + host + ')';
}

}  // namespace ddprun::agent::command
