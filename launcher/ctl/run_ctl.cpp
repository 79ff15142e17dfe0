// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/run_ctl.hpp"

#include "launcher/ctl/ask_agents.hpp"
#include "launcher/ctl/ctl_options.hpp"
#include "launcher/ctl/ctl_table.hpp"
#include "launcher/ctl/screens.hpp"
#include "launcher/ctl/selection.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/net/descriptors.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::launcher::ctl {
namespace {

int show(const std::string& text, int code = exit_code::done) {
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    return std::fflush(stdout) == 0 && is_written ? code : exit_code::refused;
}

int fail(int code, const std::string& reason, bool is_json) {
    if (is_json) return show(outcome_json(false, reason), code);
    std::fprintf(stderr, "ddprunctl: %s\n", reason.c_str());
    return code;
}

int list(const FoundAgents& found, bool is_json) {
    if (is_json) return show(list_json(found.agents));
    if (found.agents.empty()) {
        std::fprintf(stderr, "ddprunctl: no job of this user on this machine\n");
        return exit_code::done;
    }
    return show(list_text(found.agents, ::getuid()));
}

int status(const std::vector<FoundAgent>& agents, bool is_json) {
    const auto& view = *agents.front().view;
    const auto page = fetch_job_page(view.endpoint, view.run_id);
    return show(is_json ? status_json(agents, page) : status_text(agents, page));
}

/// The answer of several nodes of one job: what was done, or else the first reason why not.
int report(const std::string& run_id, const std::vector<AgentAnswer>& answers, bool is_json) {
    std::string done;
    std::string refused;
    std::string problem;
    int code = exit_code::no_answer;
    for (const auto& answer : answers) {
        if (!answer.reply) {
            problem = answer.problem;
        } else if (const auto* yes = std::get_if<control::CommandDone>(&*answer.reply)) {
            if (done.find(yes->text) == std::string::npos)
                done += (done.empty() ? "" : "; ") + yes->text;
        } else if (const auto* no = std::get_if<control::CommandRefused>(&*answer.reply)) {
            if (refused.empty()) refused = no->reason;
            code = no->why == control::CommandRefused::Why::not_allowed ? exit_code::not_allowed
                                                                        : exit_code::refused;
        }
    }
    const auto name = printable(run_id) + ": ";
    if (done.empty())
        return fail(code, name + printable(refused.empty() ? problem : refused), is_json);
    const auto text = name + printable(done);
    return show(is_json ? outcome_json(true, text) : text + "\n");
}

/// Only the node that has the rank; the first one where none has it, which says so.
std::vector<FoundAgent> nodes_with(
    const std::vector<FoundAgent>& agents, const std::optional<int>& rank) {
    if (!rank) return agents;
    for (const auto& agent : agents) {
        const auto& view = *agent.view;
        if (!view.assignment) continue;
        const int first = view.assignment->rank_base;
        if (*rank >= first && *rank < first + view.worker_count) return {agent};
    }
    return {agents.front()};
}

int command(const std::vector<FoundAgent>& agents, const control::Command& order, bool is_json) {
    return report(agents.front().view->run_id, command_agents(agents, order), is_json);
}

}  // namespace

bool is_called_ctl(std::string_view called_as) {
    // npos + 1 is 0: all of a name without a slash.
    return called_as.substr(called_as.rfind('/') + 1) == "ddprunctl";
}

int run_ctl(int argc, const char* const* argv) {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const auto options = parse_ctl_options(arguments);
    if (!options) {
        std::fprintf(
            stderr, "ddprunctl: %s\ntry 'ddprunctl --help'\n", options.error().context.c_str());
        return exit_code::usage;
    }
    const bool is_json = options->is_json;
    if (const auto* page = std::get_if<PrintText>(&options->command)) return show(page->text);
    net::prepare_descriptors();
    const auto found = find_agents();
    if (!found) return fail(exit_code::no_answer, found.error().describe(), is_json);
    if (std::holds_alternative<ListJobs>(options->command)) return list(*found, is_json);
    const auto selection = select(*found, options->run_id, options->pid);
    if (const auto* none = std::get_if<NotFound>(&selection))
        return fail(none->exit_code, none->reason, is_json);
    const auto& agents = std::get<std::vector<FoundAgent>>(selection);
    return std::visit(
        Overloaded{
            // Any node's agent passes it on to the others.
            [&](const control::StopJob& stop) { return command({agents.front()}, stop, is_json); },
            [&](const control::SignalWorkers& order) {
                return command(nodes_with(agents, order.rank), order, is_json);
            },
            [&](const auto&) { return status(agents, is_json); },
        },
        options->command);
}

}  // namespace ddprun::launcher::ctl
