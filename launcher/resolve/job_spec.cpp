// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/job_spec.hpp"

#include "launcher/resolve/report_options.hpp"
#include "launcher/resolve/resolving.hpp"
#include "launcher/resolve/time_limits.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/fields.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

/// The value whose name was given. `accepted`: the names of all of them, for the error.
template <class Choice>
Result<> resolve_choice(
    const Resolving& job,
    const char* option,
    Choice usual,
    std::initializer_list<Choice> all,
    const char* accepted,
    From<Choice>& chosen) {
    const auto given = given_or(job.options, option, std::string{control::name_of(usual)});
    for (const auto choice : all) {
        if (control::name_of(choice) != given.text) continue;
        chosen = {choice, given.origin};
        return {};
    }
    return usage(given.origin, given.text, std::string{"accepted are "} + accepted);
}

Result<> resolve_late_nodes(Resolving& job) {
    using control::LateNodes;
    return resolve_choice(
        job,
        "late-nodes",
        control::Settings{}.late_nodes,
        {LateNodes::restart, LateNodes::at_restart, LateNodes::never},
        "restart, at-restart and never",
        job.spec.late_nodes);
}

Result<> resolve_recovery(Resolving& job) {
    using control::Recovery;
    return resolve_choice(
        job,
        "recovery",
        control::Settings{}.recovery,
        {Recovery::automatic, Recovery::restart},
        "auto and restart",
        job.spec.recovery);
}

/// Requires: the time limits are resolved.
Result<> resolve_on_hang(Resolving& job) {
    using control::OnHang;
    auto& what = job.spec.on_hang;
    auto done = resolve_choice(
        job,
        "on-hang",
        control::Settings{}.on_hang,
        {OnHang::report, OnHang::restart},
        "report and restart",
        what);
    if (done && what.value == OnHang::restart && !job.spec.hang_after.value)
        return usage(
            what.origin,
            std::string{control::name_of(what.value)},
            "needs --hang-after: hangs are not looked for");
    return done;
}

Result<> resolve_health_check(Resolving& job) {
    const auto command = given_or(job.options, "health-check", "");
    job.spec.health_check = {command.text, command.origin};
    if (command.text.empty() && command.origin != by_default)
        return usage(command.origin, command.text, "accepted is a shell command");
    const auto strict = job.options.find("health-strict");
    if (strict && command.text.empty())
        return usage(strict->origin, strict->text, "needs --health-check: nothing is checked");
    job.spec.is_health_strict = {
        job.options.has_flag("health-strict"), strict ? strict->origin : by_default};
    job.spec.health_timeout = {limits::usual_health_timeout, by_default};
    const auto given = job.options.find("health-timeout");
    if (!given) return {};
    if (command.text.empty())
        return usage(given->origin, given->text, "needs --health-check: nothing is checked");
    const auto length =
        duration_between(*given, limits::shortest_health_timeout, limits::longest_health_timeout);
    if (!length) return length.error();
    job.spec.health_timeout = {*length, given->origin};
    return {};
}

Result<> resolve_xid(Resolving& job) {
    const auto given = given_or(job.options, "xid", "auto");
    if (given.text != "auto" && given.text != "ignore")
        return usage(given.origin, given.text, "accepted are auto and ignore");
    job.spec.follows_xids = {given.text == "auto", given.origin};
    return {};
}

Result<> resolve_losses(Resolving& job) {
    const auto usual = std::to_string(control::Settings{}.max_losses);
    const auto given = given_or(job.options, "max-losses", usual);
    const auto count = number_between(given, 0, static_cast<int>(control::small_count.most));
    if (!count) return count.error();
    job.spec.max_losses = {*count, given.origin};
    return {};
}

Result<> resolve_restarts(Resolving& job) {
    const auto given = given_or(job.options, "max-restarts", "0");
    const auto count = number_between(given, 0, static_cast<int>(control::small_count.most));
    if (!count) return count.error();
    job.spec.max_restarts = {*count, given.origin};
    const auto choice = restart_choice(job.options);
    if (!choice) return choice.error();
    job.spec.restarts = *choice;
    return {};
}

/// Whether the task that Slurm signals is a shell that started ddprun and waits for it. An
/// interactive shell does not count.
bool is_behind_shell(const SystemInfo& system) {
    constexpr std::array shells{"sh", "bash", "dash", "zsh", "ksh"};
    return is_slurm_task(system.environment) && !system.has_input_terminal &&
           !signals_every_process(system.environment, system.own_cgroups) &&
           value_of(system.environment, "SLURM_TASK_PID") == std::to_string(system.parent_pid) &&
           std::find(shells.begin(), shells.end(), system.parent_name) != shells.end();
}

Result<> resolve_signals(Resolving& job) {
    const auto& environment = job.system.environment;
    const auto choice = signal_choice(job.options, is_slurm_task(environment));
    if (!choice) return choice.error();
    job.spec.signals = *choice;
    job.spec.is_signalled_as_a_whole = signals_every_process(environment, job.system.own_cgroups);
    if (is_behind_shell(job.system))
        job.note(
            log::Level::warning,
            "slurm.behind_shell",
            "the task that Slurm signals is the " + job.system.parent_name +
                " that started ddprun: at the time limit it ends, and the workers are killed "
                "without a signal; write exec before ddprun");
    for (const auto& warning : choice->warnings)
        job.note(log::Level::warning, "option.ignored", warning);
    return {};
}

Result<> resolve_conf(Resolving& job) {
    const auto given = job.options.find("rdzv-conf");
    if (!given) return {};
    const auto conf = parse_rdzv_conf(given->text);
    if (!conf) return Failure{conf.error().code, given->origin + ": " + conf.error().context};
    job.conf = *conf;
    job.conf_origin = given->origin;
    for (const auto& warning : conf->warnings)
        job.note(log::Level::warning, "option.ignored", given->origin + ": " + warning);
    return {};
}

/// Ranks of the whole job may be on another node, whose number of workers is not known here.
bool is_on_this_node(const agent::RankRange& ranks, const JobSpec& spec) {
    const bool is_alone = spec.nodes.value.max == 1;
    return ranks.first < spec.nproc.value || (ranks.is_global && !is_alone);
}

void warn_of_no_worker(
    Resolving& job, const char* option, const std::vector<agent::RankRange>& all) {
    const auto given = job.options.find(option);
    if (!given || all.empty()) return;
    for (const auto& ranks : all)
        if (is_on_this_node(ranks, job.spec)) return;
    const int last = job.spec.nproc.value - 1;
    job.note(
        log::Level::warning,
        "option.ignored",
        given->origin + "=" + given->text + " means no worker of this node, which has " +
            (last == 0 ? "local rank 0 only" : "local ranks 0 to " + std::to_string(last)));
}

Result<> resolve_writing(Resolving& job) {
    auto choice = resolve_output(job.options, job.system.environment);
    if (!choice) return choice.error();
    job.spec.output = std::move(*choice);
    const auto& attached = job.spec.attachment;
    const auto regex = job.options.find("progress-regex");
    if (regex && attached.value && attached.value->rank == 0)
        return usage(
            regex->origin,
            regex->text,
            "given together with " + attached.origin +
                "=0: the output of rank 0 would be no terminal; leave one of the two out");
    const auto ranks_of = [](const std::vector<agent::RankMask>& masks) {
        std::vector<agent::RankRange> ranks;
        for (const auto& mask : masks)
            ranks.push_back(mask.ranks);
        return ranks;
    };
    const auto& plan = job.spec.output.plan;
    warn_of_no_worker(job, "local-ranks-filter", plan.console_ranks);
    warn_of_no_worker(job, "redirects", ranks_of(plan.redirects));
    warn_of_no_worker(job, "tee", ranks_of(plan.tee));
    return {};
}

Result<> resolve_report(Resolving& job) {
    auto report = choose_report(
        job.options, job.system.environment, job.system.has_terminal, job.system.look_at);
    if (!report) return report.error();
    job.spec.report = std::move(*report);
    if (const auto given = job.options.find("event-file"))
        job.spec.event_file = {given->text, given->origin};
    return {};
}

}  // namespace

Result<JobSpec> resolve(const Options& options, const SystemInfo& system) {
    using Step = Result<> (*)(Resolving&);
    // In torch's order, so that the same one of two mistakes is reported.
    constexpr Step steps[] = {
        resolve_nodes,
        resolve_restarts,
        resolve_worker_count,
        resolve_conf,
        resolve_network,
        resolve_topology,
        resolve_rendezvous,
        resolve_own_name,
        resolve_secret,
        resolve_time_limits,
        resolve_failover,
        check_time_limits,
        resolve_attachment,
        resolve_recovery,
        resolve_on_hang,
        resolve_late_nodes,
        resolve_losses,
        resolve_signals,
        resolve_deadline,
        resolve_torch_options,
        resolve_writing,
        resolve_command,
        resolve_wrapper,
        resolve_warm,
        resolve_worker_environment,
        resolve_store_access,
        resolve_cpu_binding,
        resolve_report,
        resolve_health_check,
        resolve_xid,
    };
    Resolving job{options, system, {}, {}, {}, {}, {}};
    job.spec.environment = system.environment;
    for (const auto step : steps)
        if (auto done = step(job); !done) return done.error();
    return std::move(job.spec);
}

Result<From<log::Level>> log_level(
    const Options& options, const Environment& environment, std::vector<Notice>& notices) {
    const std::string accepted = "accepted are error, warning, info, debug and trace";
    if (value_of(environment, "DDPRUN_TRACE").value_or("0") != "0")
        return From<log::Level>{log::Level::trace, "DDPRUN_TRACE"};
    if (const auto given = options.find("log-level")) {
        if (const auto level = log::parse_level(given->text))
            return From<log::Level>{*level, given->origin};
        return usage(given->origin, given->text, accepted);
    }
    const auto named = value_of(environment, "LOGLEVEL");
    const From<log::Level> otherwise{log::Level::warning, by_default};
    if (!named) return otherwise;
    if (const auto level = log::parse_level(*named)) return From<log::Level>{*level, "LOGLEVEL"};
    // Other programs read LOGLEVEL too, so a value meant for them is no error.
    notices.push_back(
        {log::Level::warning,
         "option.ignored",
         "LOGLEVEL: '" + std::string{*named} + "': " + accepted});
    return otherwise;
}

}  // namespace ddprun::launcher
