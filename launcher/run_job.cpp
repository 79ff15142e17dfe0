// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_job.hpp"

#include "agent/agent_runner.hpp"
#include "agent/keeper.hpp"
#include "agent/process/inherited_state.hpp"
#include "launcher/completion.hpp"
#include "launcher/exit_code.hpp"
#include "launcher/explain.hpp"
#include "launcher/job_spec.hpp"
#include "launcher/log_folder.hpp"
#include "launcher/options.hpp"
#include "launcher/report_options.hpp"
#include "launcher/resolving.hpp"
#include "launcher/surroundings.hpp"
#include "launcher/who_serves.hpp"
#include "rendezvous/base/exit_codes.hpp"

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher {
namespace {

int show(const std::string& text) {
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    return std::fflush(stdout) == 0 && is_written ? exit_codes::success
                                                  : exit_codes::internal_error;
}

/// Two lines at most: what is wrong, and what to do.
int refuse(const Failure& failure, bool is_torchrun_wanted = false) {
    const int exit_code = exit_code_before_start(failure, is_torchrun_wanted);
    auto text = "ddprun: " + failure.context + "\n";
    if (exit_code == exit_codes::usage) text += "try 'ddprun --help'\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
    return exit_code;
}

int complete(const Given& given) {
    if (const auto script = completion_script(given.text)) return show(*script);
    return refuse(usage(given.origin, given.text, "accepted are bash, zsh and fish"));
}

int fork_and_run(
    const agent::AgentConfig& config,
    const SignalChoice& signals,
    const agent::InheritedState& start) {
    auto handed_on = signals.stopping.value;
    const auto& forwarded = signals.forwarded.value;
    handed_on.insert(handed_on.end(), forwarded.begin(), forwarded.end());
    auto fork = agent::fork_agent(start, handed_on);
    if (!fork) {
        std::fprintf(stderr, "ddprun: %s\n", fork.error().describe().c_str());
        return exit_codes::internal_error;
    }
    if (auto* keeper = std::get_if<agent::KeeperSide>(&*fork)) return agent::keep(*keeper);
    return agent::run_agent(config, start, std::get<agent::AgentSide>(*fork));
}

}  // namespace

int run(
    int argc,
    const char* const* argv,
    const char* const* environment,
    const agent::InheritedState& start) {
    const auto surroundings = look_around(environment);
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const auto options = parse_options(arguments, surroundings.environment);
    if (!options) return refuse(options.error());
    if (options->has_flag("help")) return show(help_text());
    if (options->has_flag("version")) return show("ddprun " DDPRUN_VERSION "\n");

    if (const auto given = options->find("print-completion")) return complete(*given);

    std::vector<Notice> notices;
    const auto level = log_level(*options, surroundings.environment, notices);
    if (!level) return refuse(level.error());
    auto spec = resolve(*options, surroundings);
    if (!spec) {
        const auto is_wanted = is_torchrun_wanted(*options);
        return refuse(spec.error(), is_wanted && *is_wanted);
    }
    spec->notices.insert(spec->notices.begin(), notices.begin(), notices.end());
    if (options->has_flag("explain"))
        return show(explain(*spec, *options, *level, who_serves(*spec, surroundings)));

    std::string log_notice;
    if (auto made = make_log_folder(spec->output, log_notice); !made) return refuse(made.error());
    if (!log_notice.empty())
        spec->notices.push_back({log::Level::warning, "log.folder_made", log_notice});

    log::set_level(level->value);
    if (spec->output.plan.format == agent::LogFormat::json)
        log::use_json({{"run", spec->run_id.value}, {"host", spec->host_name}});
    for (const auto& notice : spec->notices)
        log::write(notice.level, notice.event, {{"reason", notice.reason}});
    return fork_and_run(to_agent_config(*spec), spec->signals, start);
}

}  // namespace ddprun::launcher
