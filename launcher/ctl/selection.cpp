// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/selection.hpp"

#include "launcher/ctl/ctl_table.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace ddprun::launcher::ctl {
namespace {

constexpr std::size_t most_named = 5;

std::string quoted(const std::string& text) {
    return "'" + printable(text) + "'";
}

/// "run17 (pid 4711)"
std::string name_of(const FoundAgent& agent) {
    const auto pid = "pid " + std::to_string(agent.socket.pid);
    return agent.view ? printable(agent.view->run_id) + " (" + pid + ")" : pid;
}

std::string names_of(const std::vector<FoundAgent>& agents) {
    return short_list(agents, {most_named}, name_of);
}

std::string wanted_text(const std::string& run_id, std::optional<int> pid) {
    if (pid && run_id.empty()) return "no ddprun of pid " + std::to_string(*pid);
    return "no job" + (run_id.empty() ? std::string{} : ' ' + quoted(run_id)) +
           (pid ? " with pid " + std::to_string(*pid) : std::string{});
}

NotFound not_found(const FoundAgents& found, const std::string& run_id, std::optional<int> pid) {
    const auto wanted = wanted_text(run_id, pid) + " of this user on this machine";
    for (const auto& agent : found.agents)
        if (!agent.view)
            return {
                exit_code::no_answer,
                wanted + "; pid " + std::to_string(agent.socket.pid) +
                    " does not answer: " + agent.problem};
    const auto& others = found.pids_of_others;
    if (!others.empty() && (!pid || std::find(others.begin(), others.end(), *pid) != others.end()))
        return {
            exit_code::not_allowed,
            wanted + "; other users have jobs here (pid " +
                short_list(others, {most_named}, [](int one) { return std::to_string(one); }) +
                "), which only they and root may control"};
    if (found.agents.empty()) return {exit_code::no_such_job, wanted};
    return {exit_code::no_such_job, wanted + "; there are: " + names_of(found.agents)};
}

/// A node that no server has welcomed yet is a job of its own here.
std::string job_of(const FoundAgent& agent) {
    const auto& view = *agent.view;
    return view.incarnation.empty() ? "pid " + std::to_string(agent.socket.pid)
                                    : view.run_id + '\n' + view.incarnation;
}

auto order_of(const FoundAgent& agent) {
    const auto view = agent.view.value_or(control::NodeView{});
    const int group_rank = view.assignment ? view.assignment->group_rank : -1;
    return std::tuple{
        !agent.view, agent.user, view.run_id, view.incarnation, group_rank, agent.socket.pid};
}

}  // namespace

Selection select(const FoundAgents& found, const std::string& run_id, std::optional<int> pid) {
    std::vector<FoundAgent> meant;
    for (const auto& agent : found.agents) {
        const bool is_meant = agent.view && (run_id.empty() || agent.view->run_id == run_id) &&
                              (!pid || agent.socket.pid == *pid);
        if (is_meant) meant.push_back(agent);
    }
    if (meant.empty()) return not_found(found, run_id, pid);
    std::set<std::string> jobs;
    for (const auto& agent : meant)
        jobs.insert(job_of(agent));
    sort_for_list(meant);
    if (jobs.size() > 1)
        return NotFound{
            exit_code::usage,
            "several jobs are meant: " + names_of(meant) +
                (run_id.empty() ? "; name one by its run id or with --pid"
                                : "; name one with --pid")};
    return meant;
}

void sort_for_list(std::vector<FoundAgent>& agents) {
    std::stable_sort(agents.begin(), agents.end(), [](const FoundAgent& a, const FoundAgent& b) {
        return order_of(a) < order_of(b);
    });
}

}  // namespace ddprun::launcher::ctl
