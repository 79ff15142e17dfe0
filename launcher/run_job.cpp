// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_job.hpp"

#include "agent/agent_runner.hpp"
#include "agent/keeper/keeper.hpp"
#include "agent/process/inherited_state.hpp"
#include "agent/report/report_frame.hpp"
#include "agent/report/report_json.hpp"
#include "agent/runner/gpu_errors.hpp"
#include "agent/runner/replace_file.hpp"
#include "launcher/explain/exit_code.hpp"
#include "launcher/explain/explain.hpp"
#include "launcher/explain/network_page.hpp"
#include "launcher/grammar/completion.hpp"
#include "launcher/grammar/options.hpp"
#include "launcher/hosts/host_job.hpp"
#include "launcher/hosts/host_script.hpp"
#include "launcher/load_election_access.hpp"
#include "launcher/load_secret.hpp"
#include "launcher/log_folder.hpp"
#include "launcher/network_facts.hpp"
#include "launcher/program_copies.hpp"
#include "launcher/resolve/job_spec.hpp"
#include "launcher/resolve/resolving.hpp"
#include "launcher/run_hosts.hpp"
#include "launcher/server_placement.hpp"
#include "launcher/system_info.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/start_failure.hpp"
#include "rendezvous/base/wall_time.hpp"
#include "rendezvous/control/version_text.hpp"
#include "rendezvous/net/descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::launcher {
namespace {

int show(const std::string& text) {
    const bool is_taken = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (std::fflush(stdout) == 0 && is_taken) return exit_codes::success;
    std::fprintf(
        stderr,
        "ddprun: standard output cannot be written: %s\n",
        system_code(errno).message().c_str());
    return exit_codes::internal_error;
}

/// Returns 1 when a line is bad, so that a script can check it.
int show_network(const NetworkFacts& facts) {
    const auto page = network_page(facts);
    const int code = show(page.text);
    return page.problem_count > 0 ? exit_codes::failed : code;
}

/// The job ends before it begins. That is reported on the screen in the requested form, and in the
/// report file, which would otherwise still hold the report of an earlier job.
int refuse(
    const Failure& failure, const Options& options, const SystemInfo& system, bool is_as_torchrun) {
    const int exit_code = exit_code_before_start(failure, is_as_torchrun);
    const auto run_id = options.find("rdzv-id").value_or(Given{}).text;
    const bool is_usage = failure.code == system_code(EINVAL);
    agent::JobReport report;
    report.outcome = control::Outcome::failed;
    report.exit_code = exit_code;
    report.reason = failure.context;
    report.run_id = run_id;
    report.host = system.host_name;
    if (!options.command.empty()) report.program = options.command.front();
    // Two lines at most: the error and the advice.
    const auto text =
        "ddprun: " + failure.context + "\n" + (is_usage ? "try 'ddprun --help'\n" : "");
    if (const auto link = read_host_link(system.environment)) {
        const auto json = agent::report_json(report, utc_time());
        const bool is_json = options.find("log-format").value_or(Given{}).text == "json";
        const auto frame =
            agent::framed(link->token, {exit_code, true, json, is_json ? json : text});
        std::fwrite(frame.data(), 1, frame.size(), stderr);
        return exit_code;
    }
    if (options.find("log-format").value_or(Given{}).text == "json") {
        log::use_json({{"run", run_id}, {"host", system.host_name}});
        log::error("job.refused", {{"reason", failure.context}, {"exit_code", exit_code}});
    } else {
        std::fwrite(text.data(), 1, text.size(), stderr);
    }
    const auto file = options.find("report-file");
    const bool is_about_file = file && failure.context.starts_with(file->origin);
    if (!file || is_about_file || options.find("explain")) return exit_code;
    if (const int problem = agent::replace_file(file->text, agent::report_json(report, utc_time())))
        log::warning(
            "report.not_written",
            {{"path", file->text}, {"reason", system_code(problem).message()}});
    return exit_code;
}

int complete(const Given& given, const SystemInfo& system) {
    if (const auto script = completion_script(given.text)) return show(*script);
    const auto failure = usage(given.origin, given.text, "accepted are bash, zsh, fish and tcsh");
    return refuse(failure, Options{}, system, false);
}

/// Standard input is the connection of the `ddprun --hosts` that started this node: the keeper
/// keeps it, and the workers get none.
int take_connection() {
    const int commands = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (const int none = ::open("/dev/null", O_RDONLY | O_CLOEXEC); none >= 0) {
        ::dup2(none, STDIN_FILENO);
        ::close(none);
    }
    return commands;
}

/// Checks what this machine needs before a host is contacted. Empty when all hosts are this
/// machine.
Result<std::string> path_of_ssh(const HostJob& job, const SystemInfo& system) {
    constexpr int per_host = 3;
    constexpr int besides = 32;
    const auto needed = per_host * static_cast<int>(job.places.size()) + besides;
    if (const auto lacking = net::lacking_descriptors(needed); !lacking.empty())
        return Failure{system_code(EMFILE), lacking};
    if (std::all_of(
            job.places.begin(), job.places.end(), [](const auto& place) { return place.is_here; }))
        return std::string{};
    std::error_code problem;
    if (std::filesystem::current_path(problem).empty())
        return Failure{problem, "the hosts need this working directory, which was removed"};
    return find_program("ssh", system.environment, system.look_at);
}

/// Adds what --hosts needs beyond an ordinary start: the program that is sent to the machines is
/// this one, and the job's secret is in its variable, since each node gets it through its
/// connection. With --secure each home would have another secret.
Result<SystemInfo> with_secret(const Options& options, SystemInfo system) {
    const auto choice = choose_secret(options, system.environment);
    if (!choice) return choice.error();
    const auto secret = load_secret(*choice);
    if (!secret) return secret.error();
    if (*secret)
        system.environment[secret_variable] = tls::text_of((*secret)->secrets);
    return system;
}

int run_on_hosts(
    const Options& options, const SystemInfo& system, const agent::InheritedState& start) {
    const bool is_as_torchrun = is_exit_code_torchruns(options);
    std::vector<Notice> notices;
    const auto level = log_level(options, system.environment, notices);
    if (!level) return refuse(level.error(), options, system, is_as_torchrun);
    const auto job = read_host_job(options, system);
    if (!job) return refuse(job.error(), options, system, is_as_torchrun);
    if (options.find("explain")) return show(explain_hosts(*job));
    const auto ssh = path_of_ssh(*job, system);
    if (!ssh) return refuse(ssh.error(), options, system, is_as_torchrun);
    log::set_level(level->value);
    if (job->report.format == agent::ReportFormat::json &&
        options.find("log-format").value_or(Given{}).text == "json")
        log::use_json({{"run", job->run_id}, {"host", system.host_name}});
    for (const auto& notice : notices)
        log::write(notice.level, notice.event, {{"reason", notice.reason}});
    for (const auto& warning : job->signals.warnings)
        log::warning("option.ignored", {{"reason", warning}});
    const auto secured = with_secret(options, system);
    if (!secured) return refuse(secured.error(), options, system, is_as_torchrun);
    return run_hosts(*job, *secured, *ssh, start);
}

int fork_and_run(
    const agent::AgentConfig& config,
    const SignalChoice& signals,
    const agent::InheritedState& start) {
    auto handed_on = signals.stopping.value;
    const auto& forwarded = signals.forwarded.value;
    handed_on.insert(handed_on.end(), forwarded.begin(), forwarded.end());
    const int notice = signals.preemption.value;
    if (notice != 0) handed_on.push_back(notice);
    const auto& attachment = config.worker.attachment;
    const bool is_terminal_read = attachment && attachment->has_terminal;
    // Ctrl-C and changes of the window size are for the rank, even if other signals stop the job.
    if (is_terminal_read)
        for (const int signal : {SIGINT, SIGWINCH})
            if (std::find(handed_on.begin(), handed_on.end(), signal) == handed_on.end())
                handed_on.push_back(signal);
    const int commands = config.report.frame_token.empty() ? -1 : take_connection();
    auto fork = agent::fork_agent(start, handed_on, is_terminal_read);
    if (!fork) {
        std::fprintf(
            stderr,
            "ddprun: %s\n",
            describe_start_failure(fork.error().code, fork.error().describe()).c_str());
        return exit_codes::internal_error;
    }
    if (auto* keeper = std::get_if<agent::KeeperSide>(&*fork)) {
        keeper->commands = commands;
        return agent::keep(*keeper);
    }
    if (commands >= 0) ::close(commands);
    return agent::run_agent(
        config,
        start.for_workers(signals.stopping.value, notice),
        std::get<agent::AgentSide>(*fork));
}

}  // namespace

int run(
    int argc,
    const char* const* argv,
    const char* const* environment,
    const agent::InheritedState& start) {
    auto system = read_system_info(environment);
    // From now on helper programs of ddprun do not inherit them.
    ::unsetenv(secret_variable.c_str());
    ::unsetenv(etcd_password_variable.c_str());
    // All options of a node are on its command line; what the machine's login exports is ignored.
    if (read_host_link(system.environment))
        std::erase_if(
            system.environment, [](const auto& entry) { return entry.first.starts_with("PET_"); });
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    auto options = parse_options(arguments, system.environment);
    if (!options)
        return refuse(
            options.error(), readable_options(arguments, system.environment), system, false);
    if (argc > 0) use_program_name(*options, argv[0]);
    if (options->has_flag("help")) return show(help_text());
    if (options->has_flag("version")) return show(control::version_text("ddprun"));

    if (const auto given = options->find("print-completion")) return complete(*given, system);
    if (is_host_job(*options)) return run_on_hosts(*options, system, start);

    const bool is_as_torchrun = is_exit_code_torchruns(*options);
    std::vector<Notice> notices;
    const auto level = log_level(*options, system.environment, notices);
    if (!level) return refuse(level.error(), *options, system, is_as_torchrun);
    auto spec = resolve(*options, system);
    if (!spec) return refuse(spec.error(), *options, system, is_as_torchrun);
    spec->notices.insert(spec->notices.begin(), notices.begin(), notices.end());
    if (options->has_flag("explain")) {
        spec->why_no_xids = agent::why_no_gpu_errors();
        return show(explain(*spec, *options, *level, server_placement(*spec, system)));
    }

    auto plan = spec->output.plan;
    if (spec->output.has_files) plan.log_dir = "/";  // the folder does not exist yet
    const auto needed = agent::descriptors_needed(plan, spec->nproc.value);
    const auto lacking = net::lacking_descriptors(needed);
    if (options->find("explain")) return show_network(network_facts(*spec, system, lacking));
    if (!lacking.empty())
        return refuse({system_code(EMFILE), lacking}, *options, system, is_as_torchrun);

    auto secret = load_secret(spec->secret);
    if (!secret) return refuse(secret.error(), *options, system, is_as_torchrun);
    if (auto loaded = load_election_access(*spec, system.environment); !loaded)
        return refuse(loaded.error(), *options, system, is_as_torchrun);

    std::string log_notice;
    if (auto made = make_log_folder(spec->output, log_notice); !made)
        return refuse(made.error(), *options, system, is_as_torchrun);
    if (!log_notice.empty())
        spec->notices.push_back({log::Level::warning, "log.folder_made", log_notice});

    log::set_level(level->value);
    if (spec->output.plan.format == agent::LogFormat::json)
        log::use_json({{"run", spec->run_id.value}, {"host", spec->node.host}});
    for (const auto& notice : spec->notices)
        log::write(notice.level, notice.event, {{"reason", notice.reason}});
    auto config = to_agent_config(*spec);
    config.secret = std::move(*secret);
    if (const auto end = spec->deadline.allocation_end)
        config.preemption.time_left =
            std::chrono::seconds{*end} - std::chrono::milliseconds{unix_milliseconds()};
    // A ddprun started by a worker must not get this variable.
    config.worker.environment.erase(host_link_variable);
    if (const auto link = read_host_link(system.environment)) {
        config.report.frame_token = link->token;
        config.report.has_colour = link->has_colour;
        keep_few_program_copies(system.own_target);
    }
    return fork_and_run(config, spec->signals, start);
}

}  // namespace ddprun::launcher
