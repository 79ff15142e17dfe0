// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/node_drain.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/drain_keepers.hpp"
#include "rendezvous/coordinator/running.hpp"
#include "rendezvous/coordinator/voter_roll.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::coordinator {
namespace node_drain {
namespace {

constexpr std::size_t most_named = 8;

bool has_place(const JobData& job, const Member& member) {
    return member.group_rank && !job.is<Forming>();
}

bool is_among(const std::vector<Member*>& members, const Member& member) {
    return std::find(members.begin(), members.end(), &member) != members.end();
}

/// "node2 (group rank 1, 1a2b3c4d)"
std::string label(const JobData& job, const Member& member) {
    const auto rank = has_place(job, member)
                          ? "group rank " + std::to_string(*member.group_rank) + ", "
                          : std::string{};
    return member.host() + " (" + rank + member.nonce().to_short_string() + ")";
}

std::string labels(const JobData& job, const std::vector<Member*>& members) {
    return short_list(
        members, {most_named}, [&](const Member* member) { return label(job, *member); });
}

bool is_called(const JobData& job, const Member& member, const std::string& name) {
    return name == member.host() || name == member.nonce().to_short_string() ||
           (has_place(job, member) && name == std::to_string(*member.group_rank));
}

/// The members that match `name`. Members that already leave are included only when no other member
/// matches.
std::vector<Member*> members_called(JobData& job, const std::string& name) {
    std::vector<Member*> found;
    std::vector<Member*> leaving;
    for (auto* member : job.members.by_arrival())
        if (is_called(job, *member, name))
            (member->is_leaving() ? leaving : found).push_back(member);
    return found.empty() ? leaving : found;
}

/// The nodes that a command names, or the reason why it names none.
struct Named {
    std::vector<Member*> members = {};
    std::string problem = {};
};

Named named(JobData& job, const std::vector<std::string>& names) {
    Named result;
    if (names.empty()) result.problem = "no node is named";
    for (const auto& name : names) {
        const auto found = members_called(job, name);
        if (found.size() != 1) {
            result.problem = (found.empty() ? "no node '" : "several nodes are '") + name +
                             "'; there are " + labels(job, job.members.by_arrival());
            return result;
        }
        if (!is_among(result.members, *found.front())) result.members.push_back(found.front());
    }
    return result;
}

/// Why no node can be drained or undrained now; empty when one can.
std::string objection_now(const JobData& job) {
    if (job.is<Over>() || job.causes.cancel) return "the job is ending: " + job.history.said.reason;
    if (job.is<Recovering>())
        return "the server has just taken the job up, and waits for its nodes: try again when it "
               "runs";
    return {};
}

/// The number of members that stay when these are drained.
std::size_t staying_count(JobData& job, const std::vector<Member*>& drained) {
    const auto all = job.members.by_arrival();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](const Member* member) {
            return member->is_present() && !is_among(drained, *member);
        }));
}

bool is_host_of_server(const JobData& job, const Member& member) {
    return is_lost_with_server(job) && is_node_of_server(job, member);
}

std::string objection_despite_force(JobData& job, const std::vector<Member*>& members) {
    for (auto* other : job.members.by_arrival())
        // The drain of a member that is out may never end, because its workers cannot be killed.
        if (other->drain_reason && other->state != Member::State::out && !is_among(members, *other))
            return "one drain at a time: " + label(job, *other) + " is still being drained";
    for (const auto* member : members)
        if (member->version() < control::drain_since)
            return label(job, *member) +
                   " runs an older release of ddprun: it leaves by SIGTERM to its ddprun";
    if (job.holds.drained.size() + members.size() > limits::max_drained_hosts)
        return "too many hosts are drained: " + std::to_string(job.holds.drained.size());
    return {};
}

std::string objection(JobData& job, const std::vector<Member*>& members) {
    for (const auto* member : members)
        if (is_host_of_server(job, *member))
            return "the rendezvous server is part of the ddprun of " + label(job, *member) +
                   ": the job would end on every node (--force drains it all the same)";
    // A node of a drained host is not available to the job.
    if (std::all_of(members.begin(), members.end(), [](const Member* member) {
            return member->is_of_drained_host;
        }))
        return {};
    const auto left = staying_count(job, members);
    if (left >= job.min_nodes()) return {};
    return counted(left, "node") + " would be left, and the job needs at least " +
           std::to_string(job.min_nodes()) + " (--force drains all the same)";
}

/// What happens next, such as "a spare takes its place"; empty when unknown.
std::string outlook(JobData& job, const std::vector<Member*>& members) {
    if (std::any_of(members.begin(), members.end(), [&](const Member* member) {
            return is_host_of_server(job, *member);
        }))
        return "; the job ends with it";
    const auto left = staying_count(job, members);
    if (left < job.min_nodes())
        return "; the job then has " + counted(left, "node") + " of at least " +
               std::to_string(job.min_nodes()) + ", and waits for others or ends";
    const bool is_in_round = std::any_of(members.begin(), members.end(), [&](const Member* member) {
        return has_place(job, *member);
    });
    if (!is_in_round) return {};
    const auto all = job.members.standbys();
    const bool has_spare = std::any_of(all.begin(), all.end(), [&](const Member* member) {
        return member->is_candidate() && !member->hold && !is_among(members, *member);
    });
    const auto next = std::min(job.max_nodes(), job.nodes().in_units(left));
    return has_spare ? "; a node that stands by takes a free place"
                     : "; the job goes on with " + counted(next, "node");
}

void order_to_leave(JobStep& step, Member& member, const std::string& reason) {
    auto& known = step.job.holds.drained[member.host()];
    if (std::exchange(known, reason) != reason) note_drain_change(step.job);
    if (!member.is_leaving() && !member.drain_reason) {
        member.drain_reason = reason;
        step.note("node " + member.name() + " is " + reason);
    }
    // An earlier order may have been lost; a node ignores a second one.
    repeat_drain(step, member.nonce());
}

/// "no drained host 'x'; drained are node5, node7"
std::string no_such_host(const JobData& job, const std::string& name) {
    std::vector<std::string> hosts;
    for (const auto& [host, reason] : job.holds.drained)
        hosts.push_back(host);
    return "no drained host '" + name + "'; " +
           (hosts.empty() ? "none is drained" : "drained are " + short_list(hosts, {most_named}));
}

/// Empty when the name matches no drained host.
std::string drained_host_called(JobData& job, const std::string& name) {
    if (job.holds.drained.contains(name)) return name;
    for (const auto* member : job.members.by_arrival())
        if (member->is_of_drained_host && is_called(job, *member, name)) return member->host();
    return {};
}

void let_in(JobStep& step, const std::string& host) {
    auto& job = step.job;
    job.holds.drained.erase(host);
    note_drain_change(job);
    for (auto* member : job.members.by_arrival()) {
        if (!member->is_of_drained_host || member->host() != host) continue;
        member->is_of_drained_host = false;
        if (job.is<Running>() && member->is_candidate()) consider_late_node(step, *member);
    }
}

}  // namespace
}  // namespace node_drain

DrainPlan plan_drain(JobData& job, const control::Drain& drain) {
    using namespace node_drain;
    if (auto why = objection_now(job); !why.empty()) return {false, std::move(why)};
    auto [members, problem] = named(job, drain.nodes);
    if (problem.empty()) problem = objection_despite_force(job, members);
    // The nodes whose drain is new. A node that already leaves counts if its host is not drained
    // yet.
    auto staying = members;
    std::erase_if(staying, [&](const Member* member) {
        return member->drain_reason ||
               (member->is_leaving() && job.holds.drained.contains(member->host()));
    });
    if (problem.empty() && !drain.is_forced && !staying.empty()) problem = objection(job, staying);
    if (!problem.empty()) return {false, std::move(problem)};

    auto text = staying.empty()
                    ? labels(job, members) + " leaves already"
                    : labels(job, staying) + (staying.size() == 1 ? " leaves" : " leave") +
                          outlook(job, staying);
    return {true, std::move(text), std::move(members), "drained by " + drain.by};
}

void perform(JobStep& step, const DrainPlan& plan) {
    for (auto* member : plan.members)
        node_drain::order_to_leave(step, *member, plan.reason);
}

UndrainPlan plan_undrain(JobData& job, const control::Undrain& undrain) {
    using namespace node_drain;
    if (auto why = objection_now(job); !why.empty()) return {false, std::move(why)};
    if (undrain.nodes.empty()) return {false, "no node is named"};
    std::set<std::string> hosts;
    for (const auto& name : undrain.nodes) {
        auto host = drained_host_called(job, name);
        if (host.empty()) return {false, no_such_host(job, name)};
        for (const auto* member : job.members.by_arrival())
            if (member->host() == host && member->drain_reason && !member->is_leaving())
                return {
                    false,
                    label(job, *member) + " is still being drained: try again when it has left"};
        hosts.insert(std::move(host));
    }
    std::vector<std::string> list(hosts.begin(), hosts.end());
    const auto names = short_list(list, {most_named});
    return {
        true,
        "nodes of " + names + " may have a place",
        std::move(list),
        "undrained by " + undrain.by + ": " + names};
}

void perform(JobStep& step, const UndrainPlan& plan) {
    if (!plan.is_possible) return;
    step.note(plan.note);
    for (const auto& host : plan.hosts)
        node_drain::let_in(step, host);
}

void on_drain(JobStep& step, const Member& sender, const control::Drain& drain) {
    const auto plan = plan_drain(step.job, drain);
    // Answers before the order is sent: the sender may be the node that leaves.
    step.send(sender, control::DrainAnswer{drain.id, plan.is_possible, plan.text});
    perform(step, plan);
}

void on_undrain(JobStep& step, const Member& sender, const control::Undrain& undrain) {
    const auto plan = plan_undrain(step.job, undrain);
    step.send(sender, control::DrainAnswer{undrain.id, plan.is_possible, plan.text});
    perform(step, plan);
}

void repeat_drain(const JobStep& step, const Nonce& nonce) {
    const auto* member = step.job.members.find(nonce);
    if (member == nullptr || !member->drain_reason || member->is_leaving()) return;
    step.send(*member, control::DrainOrder{*member->drain_reason});
}

}  // namespace ddprun::coordinator
