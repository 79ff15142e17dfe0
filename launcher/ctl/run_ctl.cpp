// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/run_ctl.hpp"

#include "launcher/ctl/ask_agents.hpp"
#include "launcher/ctl/ask_server.hpp"
#include "launcher/ctl/ctl_options.hpp"
#include "launcher/ctl/ctl_table.hpp"
#include "launcher/ctl/outcome.hpp"
#include "launcher/ctl/page_token.hpp"
#include "launcher/ctl/read_native.hpp"
#include "launcher/ctl/remote.hpp"
#include "launcher/ctl/screens.hpp"
#include "launcher/ctl/selection.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/net/descriptors.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
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

int status(const std::vector<FoundAgent>& all, bool is_json) {
    auto [agents, cut_off] = by_connection(all);
    agents.insert(agents.end(), cut_off.begin(), cut_off.end());
    const auto& view = *agents.front().view;
    const auto page = fetch_job_page(view);
    return show(is_json ? status_json(agents, page) : status_text(agents, page));
}

int report(const Outcome& outcome, bool is_json) {
    if (outcome.exit_code != exit_code::done) return fail(outcome.exit_code, outcome.text, is_json);
    return show(is_json ? outcome_json(true, outcome.text) : outcome.text + "\n");
}

int show(const ShowToken& wanted, bool is_json) {
    const auto token = page_token(wanted.secret_file);
    if (!token) return fail(exit_code::usage, token.error().context, is_json);
    return show(is_json ? outcome_json(true, *token) : *token + "\n");
}

int signal(const std::vector<FoundAgent>& all, const control::SignalWorkers& order, bool is_json) {
    const auto agents = agents_to_signal(all, order.ranks());
    return report(outcome_of(agents, command_agents(agents, order)), is_json);
}

/// If no node here has the range, one of them refuses it with a message.
std::vector<RankPlace> ranks_to_show(
    const std::vector<FoundAgent>& agents, const std::optional<RankRange>& wanted) {
    if (!wanted) {
        const auto all = ranks_of(agents, std::nullopt, std::nullopt);
        return all.empty() ? std::vector<RankPlace>{{0, 0}} : all;
    }
    const auto some = ranks_of(agents, wanted->first, wanted->last);
    return some.empty() ? std::vector<RankPlace>{{wanted->first, 0}} : some;
}

/// Requires: at least one rank.
int show(
    const std::vector<control::RankReport>& ranks,
    int code,
    bool is_json,
    const NativeByRank& native = {}) {
    const bool is_any_seen =
        std::any_of(ranks.begin(), ranks.end(), [](const control::RankReport& one) {
            return one.stack.has_value();
        });
    if (!is_any_seen) return fail(code, ranks.front().problem, is_json);
    return show(is_json ? stacks_json(ranks, native) : stacks_text(ranks, native), code);
}

/// What the agents say of the ranks, and the exit code of the first one that could not be seen.
struct Looks {
    std::vector<control::RankReport> views = {};
    int code = exit_code::done;
};

Looks look_at(const std::vector<FoundAgent>& agents, const std::vector<RankPlace>& places) {
    const auto timeout = limits::command_relay_timeout + limits::command_answer_timeout;
    Looks looks;
    for (std::size_t begin = 0; begin < places.size(); begin += limits::max_stacks_at_once) {
        const auto end = std::min(begin + limits::max_stacks_at_once, places.size());
        std::vector<Question> questions;
        for (std::size_t i = begin; i < end; ++i)
            questions.push_back({agents[places[i].agent], control::ShowStack{places[i].rank}});
        const auto answers = ask_agents(questions, timeout);
        for (std::size_t i = begin; i < end; ++i) {
            const auto& answer = answers[i - begin];
            auto& view = looks.views.emplace_back(control::RankReport{places[i].rank});
            if (const auto* stack =
                    answer.reply ? std::get_if<control::RankStack>(&*answer.reply) : nullptr) {
                view.stack = *stack;
                continue;
            }
            const auto miss = miss_of(answer);
            view.problem = miss.text;
            if (looks.code == exit_code::done) looks.code = miss.exit_code;
        }
    }
    return looks;
}

int stacks(const std::vector<FoundAgent>& agents, const ShowStacks& wanted, bool is_json) {
    std::vector<NativeTool> tools;
    if (wanted.is_native) tools = native_tools_here();
    if (wanted.is_native && tools.empty())
        return fail(
            exit_code::refused,
            "--native: neither py-spy nor gdb can be started here: pip install py-spy, or install "
            "gdb, and have it on PATH",
            is_json);
    const auto looks = look_at(agents, ranks_to_show(agents, wanted.ranks));
    if (!wanted.is_native) return show(looks.views, looks.code, is_json);
    std::fprintf(stderr, "ddprunctl: each worker is stopped while its native stacks are read\n");
    const auto native = read_native(looks.views, tools);
    const bool is_any_missing = std::any_of(
        native.begin(), native.end(), [](const auto& one) { return one.second.by.empty(); });
    const bool is_refused = looks.code == exit_code::done && is_any_missing;
    return show(looks.views, is_refused ? exit_code::refused : looks.code, is_json, native);
}

/// One node's agent forwards the stop to all nodes that the server has; if it cannot, another agent
/// is tried.
int stop(const std::vector<FoundAgent>& all, const control::StopJob& order, bool is_json) {
    const auto plan = by_connection(all);
    std::vector<FoundAgent> agents;
    std::vector<AgentAnswer> answers;
    for (const auto& agent : plan.connected) {
        agents.push_back(agent);
        answers.push_back(command_agents({agent}, order).front());
        if (!answers.back().is_done()) continue;
        agents = {agent};
        answers = {AgentAnswer{answers.back()}};
        break;
    }
    const bool is_passed_on = !answers.empty() && answers.back().is_done();
    const auto others = command_agents(plan.cut_off, order);
    for (std::size_t i = 0; i < others.size(); ++i) {
        // A node that is cut off cannot stop the others; that need not be reported again.
        if (is_passed_on && others[i].is_done()) continue;
        agents.push_back(plan.cut_off[i]);
        answers.push_back(others[i]);
    }
    return report(outcome_of(agents, answers), is_json);
}

/// One node's agent forwards the command to the server, which decides.
int pass_on(const std::vector<FoundAgent>& all, const control::Command& order, bool is_json) {
    const auto plan = by_connection(all);
    const std::vector<FoundAgent> agent{
        plan.connected.empty() ? plan.cut_off.front() : plan.connected.front()};
    const auto timeout = limits::command_relay_timeout + limits::command_answer_timeout;
    return report(outcome_of(agent, command_agents(agent, order, timeout)), is_json);
}

/// A command to the rendezvous server, which performs it for every node.
int run_remote(const CtlOptions& options) {
    const bool is_json = options.is_json;
    const auto [answer, ranks] = ask_server(options);
    if (const auto* none = std::get_if<Outcome>(&answer))
        return fail(none->exit_code, none->text, is_json);
    const auto& answered = std::get<control::JobCommandAnswer>(answer);
    if (!ranks.empty())
        return show(ranks, outcome_of(answered, *options.run_id).exit_code, is_json);
    const auto server = options.server->endpoint.to_string();
    const bool is_list = std::holds_alternative<ListJobs>(options.command);
    if (!is_list && !std::holds_alternative<ShowJob>(options.command))
        return report(outcome_of(answered, *options.run_id), is_json);
    const auto shown =
        is_list ? shown_list(answered, server, is_json) : shown_job(answered, server, is_json);
    if (shown.exit_code != exit_code::done) return fail(shown.exit_code, shown.text, is_json);
    return show(shown.text);
}

}  // namespace

bool is_called_ctl(std::string_view called_as) {
    // npos + 1 is 0: the whole of a name without a slash.
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
    if (const auto* token = std::get_if<ShowToken>(&options->command)) return show(*token, is_json);
    net::prepare_descriptors();
    if (options->server) return run_remote(*options);
    const auto found = find_agents();
    if (!found) return fail(exit_code::no_answer, found.error().describe(), is_json);
    if (std::holds_alternative<ListJobs>(options->command)) return list(*found, is_json);
    const auto selection = select(*found, options->run_id, options->pid);
    if (const auto* none = std::get_if<NotFound>(&selection))
        return fail(none->exit_code, none->reason, is_json);
    const auto& agents = std::get<std::vector<FoundAgent>>(selection);
    return std::visit(
        Overloaded{
            [&](const control::StopJob& order) { return stop(agents, order, is_json); },
            [&](const control::SignalWorkers& order) { return signal(agents, order, is_json); },
            [&](const ShowStacks& wanted) { return stacks(agents, wanted, is_json); },
            [&](const control::DrainNodes& order) { return pass_on(agents, order, is_json); },
            [&](const control::UndrainNodes& order) { return pass_on(agents, order, is_json); },
            [&](const control::ResizeJob& order) { return pass_on(agents, order, is_json); },
            [&](const auto&) { return status(agents, is_json); },
        },
        options->command);
}

}  // namespace ddprun::launcher::ctl
