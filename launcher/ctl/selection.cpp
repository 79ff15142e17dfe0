// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/selection.hpp"

#include "launcher/ctl/ctl_table.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

namespace ddprun::launcher::ctl {
namespace {

constexpr std::size_t most_named = 5;

std::string quoted(const std::string& text) {
    return "'" + printable_line(text) + "'";
}

/// A node that hosts the server reaches it at a loopback address. A node that has reached no server
/// yet has no address of it.
bool have_same_server(const control::NodeView& a, const control::NodeView& b) {
    if (a.endpoint.empty() || b.endpoint.empty() || a.endpoint == b.endpoint) return true;
    const auto one = parse_endpoint(a.endpoint, 0);
    const auto other = parse_endpoint(b.endpoint, 0);
    return one && other && one->port == other->port &&
           (is_loopback(one->host) || is_loopback(other->host));
}

/// "run17 (pid 4711)"
std::string name_of(const FoundAgent& agent) {
    const auto pid = "pid " + std::to_string(agent.socket.pid);
    return agent.view ? printable_line(agent.view->run_id) + " (" + pid + ")" : pid;
}

std::string names_of(const std::vector<FoundAgent>& agents) {
    return short_list(agents, {most_named}, name_of);
}

std::string wanted_text(const std::optional<std::string>& run_id, std::optional<int> pid) {
    if (pid && !run_id) return "no ddprun of pid " + std::to_string(*pid);
    return "no job" + (run_id ? ' ' + quoted(*run_id) : std::string{}) +
           (pid ? " with pid " + std::to_string(*pid) : std::string{});
}

std::string numbers_of(const std::vector<int>& pids) {
    return short_list(pids, {most_named}, [](int one) { return std::to_string(one); });
}

/// What else is running here, since the intended job may be among it.
std::string hints(const FoundAgents& found) {
    std::vector<FoundAgent> known;
    std::string text;
    for (const auto& agent : found.agents) {
        if (agent.view)
            known.push_back(agent);
        else
            text += "; pid " + std::to_string(agent.socket.pid) +
                    " does not answer: " + printable_line(agent.problem);
    }
    if (!known.empty()) text = "; there are: " + names_of(known) + text;
    if (!found.pids_of_others.empty())
        text += "; other users have jobs here (pid " + numbers_of(found.pids_of_others) +
                "), which only they and root may control";
    return text;
}

/// Among agents that may not be queried, only a process id identifies one.
int code_of_miss(const FoundAgents& found, std::optional<int> pid) {
    if (!pid) return exit_code::no_such_job;
    const auto is_it = [&](const FoundAgent& agent) {
        return !agent.view && agent.socket.pid == *pid;
    };
    if (std::any_of(found.agents.begin(), found.agents.end(), is_it)) return exit_code::no_answer;
    const auto& others = found.pids_of_others;
    const bool is_of_other = std::find(others.begin(), others.end(), *pid) != others.end();
    return is_of_other ? exit_code::not_allowed : exit_code::no_such_job;
}

NotFound not_found(
    const FoundAgents& found, const std::optional<std::string>& run_id, std::optional<int> pid) {
    return {
        code_of_miss(found, pid),
        wanted_text(run_id, pid) + " of this user on this machine" + hints(found)};
}

/// User, run id and incarnation. Another user may claim the same run id and incarnation.
using JobName = std::tuple<unsigned, std::string, std::string>;

/// A node that no server has welcomed yet belongs to the job of its user and run id that uses the
/// same server; if there is none, to a job of its own with the other nodes that wait for that
/// server.
JobName job_of(const FoundAgent& agent, const std::vector<FoundAgent>& agents) {
    const auto& view = *agent.view;
    if (!view.incarnation.empty()) return {agent.user, view.run_id, view.incarnation};
    std::string awaited;
    for (const auto& other : agents) {
        const bool is_of_job = other.user == agent.user && other.view->run_id == view.run_id &&
                               have_same_server(view, *other.view);
        if (!is_of_job) continue;
        if (!other.view->incarnation.empty())
            return {agent.user, view.run_id, other.view->incarnation};
        if (awaited.empty()) awaited = other.view->endpoint;
    }
    // No real incarnation contains a line break.
    return {agent.user, view.run_id, "\n" + awaited};
}

auto order_of(const FoundAgent& agent) {
    const auto view = agent.view.value_or(control::NodeView{});
    const int group_rank = view.assignment ? view.assignment->group_rank : -1;
    return std::tuple{
        !agent.view, agent.user, view.run_id, view.incarnation, group_rank, agent.socket.pid};
}

}  // namespace

Selection select(
    const FoundAgents& found, const std::optional<std::string>& run_id, std::optional<int> pid) {
    std::vector<FoundAgent> meant;
    for (const auto& agent : found.agents) {
        const bool is_meant = agent.view && (!run_id || agent.view->run_id == *run_id) &&
                              (!pid || agent.socket.pid == *pid);
        if (is_meant) meant.push_back(agent);
    }
    if (meant.empty()) return not_found(found, run_id, pid);
    std::set<JobName> jobs;
    for (const auto& agent : meant)
        jobs.insert(job_of(agent, meant));
    sort_for_list(meant);
    if (jobs.size() > 1)
        return NotFound{
            exit_code::usage,
            "several jobs are meant: " + names_of(meant) +
                (run_id ? "; name one with --pid" : "; name one by its run id or with --pid")};
    return meant;
}

ByConnection by_connection(const std::vector<FoundAgent>& agents) {
    ByConnection found;
    for (const auto& agent : agents)
        (agent.view->is_connected ? found.connected : found.cut_off).push_back(agent);
    return found;
}

std::vector<FoundAgent> agents_to_signal(
    const std::vector<FoundAgent>& agents, const std::optional<control::RankRange>& ranks) {
    std::vector<FoundAgent> with_workers;
    for (const auto& agent : agents)
        if (agent.view->assignment) with_workers.push_back(agent);
    const auto& meant = with_workers.empty() ? agents : with_workers;
    if (!ranks) return meant;
    std::vector<FoundAgent> with_ranks;
    std::copy_if(
        meant.begin(), meant.end(), std::back_inserter(with_ranks), [&](const FoundAgent& agent) {
            if (!agent.view->assignment) return false;
            // Not compared by a sum, which could overflow: another release may send any number.
            const int first = agent.view->assignment->rank_base;
            return ranks->last >= first && ranks->first - first < agent.view->worker_count;
        });
    if (with_ranks.empty()) return {meant.front()};
    return with_ranks;
}

std::vector<RankPlace> ranks_of(
    const std::vector<FoundAgent>& agents, std::optional<int> first, std::optional<int> last) {
    std::vector<RankPlace> places;
    for (std::size_t agent = 0; agent < agents.size(); ++agent) {
        const auto& view = *agents[agent].view;
        if (!view.assignment) continue;
        const int begin = view.assignment->rank_base;
        const int end = begin + view.worker_count;
        for (int rank = std::max(begin, first.value_or(begin));
             rank < end && rank <= last.value_or(rank);
             ++rank)
            places.push_back({rank, agent});
    }
    std::sort(places.begin(), places.end(), [](const RankPlace& a, const RankPlace& b) {
        return a.rank < b.rank;
    });
    return places;
}

void sort_for_list(std::vector<FoundAgent>& agents) {
    std::stable_sort(agents.begin(), agents.end(), [](const FoundAgent& a, const FoundAgent& b) {
        return order_of(a) < order_of(b);
    });
}

}  // namespace ddprun::launcher::ctl
