// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/job_commands.hpp"

#include <limits>
#include <utility>

/// Commands of `ddprunctl` from any machine: the connection has one command and one answer, after
/// which it is closed. That to a command for workers follows when their agents have answered.
namespace ddprun::coordinator {
namespace commands {
namespace {

using Outcome = control::JobCommandAnswer::Outcome;
using What = control::JobCommand::What;

/// Past the last node of every job.
constexpr auto no_nodes = std::numeric_limits<std::size_t>::max();

constexpr std::size_t most_named = 5;

}  // namespace
}  // namespace commands

void Coordinator::on_command(
    Peer& peer, control::JobCommand command, Instant now, std::vector<Effect>& out) {
    using namespace commands;
    peer.has_commanded = true;
    const auto connected = peer.connected;
    const auto connection = connected.connection;
    const auto by = sender_text(connected.peer_addr, command.by);
    const auto refuse = [&](Outcome outcome, std::string text) {
        out.push_back(Commanded{command.run_id, control::describe(command), by, outcome, text});
        out.push_back(Send{connection, control::JobCommandAnswer{outcome, std::move(text)}});
    };
    if (!connected.has_proved_secret) {
        refuse(
            Outcome::not_allowed,
            "this server has no secret, so it performs no command of another machine: start the "
            "job with --rdzv-secret-file or DDPRUN_SECRET, or run ddprunctl on a node of the job");
    } else if (command.what == What::show) {
        out.push_back(Send{connection, shown_jobs(connected.tenant, command.run_id, now)});
    } else {
        const auto newest = newest_.find(JobName{connected.tenant, command.run_id});
        if (newest == newest_.end()) {
            refuse(Outcome::no_such_job, no_such_job(connected.tenant, command.run_id));
        } else {
            const bool is_closed_by_job = is_for_workers(command.what);
            if (is_closed_by_job) peer.job = newest->second;
            pass(newest->second, Job::Commanded{connection, std::move(command), by}, now, out);
            if (is_closed_by_job) return;
        }
    }
    out.push_back(Close{connection, "a command was answered"});
}

/// "no job 'a' on this server; there are: b, c"
std::string Coordinator::no_such_job(const std::string& tenant, const std::string& run_id) const {
    std::vector<std::string> others;
    for (const auto& [name, id] : newest_)
        if (name.tenant == tenant && !jobs_.at(id).is_over()) others.push_back(name.run_id);
    return "no job '" + run_id + "' on this server" +
           (others.empty() ? std::string{"; it has none that runs"}
                           : "; there are: " + short_list(others, {commands::most_named}));
}

/// The named job, also when it is over; without a name, all that are not over.
control::JobCommandAnswer Coordinator::shown_jobs(
    const std::string& tenant, const std::string& run_id, Instant now) const {
    std::vector<const Job*> found;
    for (const auto& [name, id] : newest_) {
        const auto& job = jobs_.at(id);
        const bool is_meant = run_id.empty() ? !job.is_over() : name.run_id == run_id;
        if (name.tenant == tenant && is_meant) found.push_back(&job);
    }
    if (found.empty() && !run_id.empty())
        return {commands::Outcome::no_such_job, no_such_job(tenant, run_id)};
    control::JobCommandAnswer answer;
    const bool has_nodes = found.size() == 1;
    for (const auto* job : found) {
        if (answer.jobs.size() == limits::max_summary_jobs) break;
        answer.jobs.push_back(
            summary_of(job->status(now, has_nodes ? 0 : commands::no_nodes), has_nodes));
    }
    answer.more_jobs = static_cast<int>(found.size() - answer.jobs.size());
    return answer;
}

}  // namespace ddprun::coordinator
