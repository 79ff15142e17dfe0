// SPDX-License-Identifier: Apache-2.0
#include "launcher/explain/explain.hpp"

#include "agent/report/printable.hpp"
#include "launcher/grammar/node_range.hpp"
#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr std::size_t value_column = 24;
constexpr std::size_t origin_column = 55;

/// 80 columns wide, except for longer words.
class Page {
public:
    void row(const std::string& name, const std::string& value, const std::string& origin) {
        origins_.push_back(origin);
        const auto shown = printable(value);
        std::string line = "  " + name;
        line.resize(std::max(line.size() + 1, value_column), ' ');
        line += agent::wrapped(shown, value_column);
        const auto origin_at = column_of_origin(origin);
        const bool is_beside =
            value_column + shown.size() + 2 <= origin_column && origin_at == origin_column;
        line += is_beside ? std::string(origin_column - value_column - shown.size(), ' ')
                          : "\n" + std::string(origin_at, ' ');
        text_ += line + agent::wrapped(origin, origin_at) + "\n";
    }
    template <class T>
    void row(const std::string& name, const From<T>& value, const std::string& shown) {
        row(name, shown, value.origin);
    }
    /// Whether a row already shows it. An origin may contain more text than was typed.
    bool has_shown(const std::string& typed) const {
        return std::any_of(origins_.begin(), origins_.end(), [&](const std::string& origin) {
            constexpr std::string_view ends = " =:,";
            const auto text = " " + origin + " ";
            return std::any_of(ends.begin(), ends.end(), [&](char end) {
                return text.find(" " + typed + end) != std::string::npos;
            });
        });
    }
    void sentence(const std::string& text) {
        constexpr std::size_t indent = 2;
        line(agent::wrapped(text, indent));
    }
    void line(const std::string& text) { text_ += text + "\n"; }
    std::string take() { return std::move(text_); }

private:
    /// Further left when one word needs more room.
    static std::size_t column_of_origin(const std::string& origin) {
        constexpr std::size_t last_column = 79;
        std::istringstream stream(origin);
        std::size_t longest = 0;
        for (std::string word; stream >> word;)
            longest = std::max(longest, word.size());
        return std::min(origin_column, last_column - std::min(longest, last_column));
    }

    std::string text_;
    std::vector<std::string> origins_;
};

std::string seconds(const From<Duration>& length) {
    return describe_seconds(length.value) + " s";
}

std::string text_or(const Options& options, std::string_view name, const std::string& otherwise) {
    const auto given = options.find(name);
    return given && !given->text.empty() ? given->text : otherwise;
}

/// Origin of the value: the option, else another option that implies it, else the default.
std::string origin_of(
    const Options& options, std::string_view name, std::string_view stand_in = {}) {
    if (const auto given = options.find(name)) return given->origin;
    if (const auto given = options.find(stand_in)) return given->origin;
    return by_default;
}

void add_output(Page& page, const JobSpec& spec, const Options& options) {
    const auto as_given = [&](std::string_view name, const char* label, const char* otherwise) {
        page.row(label, text_or(options, name, otherwise), origin_of(options, name));
    };
    const auto& plan = spec.output.plan;
    as_given("redirects", "redirects", "nothing");
    as_given("tee", "tee", "nothing");
    const auto& folder = spec.output.log_dir;
    const auto place = folder.empty() ? "a fresh one in " + spec.output.temporary_folder : folder;
    page.row("log folder", spec.output.has_files ? place : "none", origin_of(options, "log-dir"));
    page.row(
        "log layout",
        plan.layout == agent::LogLayout::torchrun ? "torchrun" : "ddprun",
        origin_of(options, "log-layout", "compat"));
    as_given("log-max-size", "log file size", "no limit");
    as_given("log-keep", "full files kept", "all");
    as_given("log-format", "log format", "text");
    const std::string torch_prefix = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
    const bool is_torch_prefix = !value_of(spec.environment, torch_prefix).value_or("").empty() &&
                                 !options.find("log-line-prefix-template");
    page.row(
        "line prefix",
        plan.prefix,
        is_torch_prefix ? torch_prefix : origin_of(options, "log-line-prefix-template"));
    as_given("progress-regex", "steps in output", "not looked for");
    as_given("local-ranks-filter", "ranks on console", "all");
    as_given("duplicate-stdout-filters", "stdout filters", "none");
    as_given("duplicate-stderr-filters", "stderr filters", "none");
}

void add_report(Page& page, const JobSpec& spec, const Options& options) {
    const auto name = [&] {
        switch (spec.report.format) {
            case agent::ReportFormat::text: return "text";
            case agent::ReportFormat::json: return "json";
            case agent::ReportFormat::torchrun: return "torchrun";
        }
        return "";
    };
    const bool is_log_format = spec.output.plan.format == agent::LogFormat::json;
    page.row(
        "report",
        name(),
        origin_of(options, "report-format", is_log_format ? "log-format" : "compat"));
    page.row(
        "report file", text_or(options, "report-file", "none"), origin_of(options, "report-file"));
    const auto& parent = spec.report.parent_error_file;
    if (!parent.empty()) page.row("parent's error file", parent, "TORCHELASTIC_ERROR_FILE");
    page.row(
        "event file", text_or(options, "event-file", "none"), origin_of(options, "event-file"));
    page.row(
        "exit codes",
        spec.report.has_torchrun_exit_code ? "torchrun's" : "ddprun's",
        origin_of(options, "compat"));
}

/// The given options that have no row of their own.
void add_rest(Page& page, const Options& options) {
    for (const auto& [name, given] : options.given) {
        if (name == "explain" || page.has_shown(given.origin)) continue;
        const bool is_on = given.text != "0";
        page.row(
            name, option_row(name).is_flag() ? (is_on ? "yes" : "no") : given.text, given.origin);
    }
}

}  // namespace

std::string explain(
    const JobSpec& spec,
    const Options& options,
    const From<log::Level>& level,
    const std::string& server_placement) {
    Page page;
    page.row("value", "", "from");
    page.row("run id", spec.run_id, spec.run_id.value);
    page.row("nodes", spec.nodes, describe(spec.nodes.value));
    if (const auto unit = spec.nodes.value.unit)
        page.row("node unit", std::to_string(*unit), origin_of(options, "node-unit"));
    if (const auto given = options.find("topology"))
        page.row("switch", spec.node.topology, given->origin + "=" + given->text);
    page.row("workers per node", spec.nproc, std::to_string(spec.nproc.value));
    if (spec.has_virtual_local_rank.value)
        page.row("local rank", spec.has_virtual_local_rank, "0, one GPU each");
    page.row("role", spec.role, spec.role.value);
    const auto& rank = spec.node_rank;
    page.row("node rank", rank, rank.value ? std::to_string(*rank.value) : "any");
    page.row("max restarts", spec.max_restarts, std::to_string(spec.max_restarts.value));
    const auto& election = spec.election.value;
    page.row(
        "rendezvous",
        spec.is_static,
        election && !election->has_voters() ? by_engine(*election, "etcd", "k8s")
        : spec.is_static.value              ? "static"
                                            : "c10d");
    page.row("standby", spec.failover, std::string{control::name_of(spec.failover.value)});
    if (const auto& witness = spec.witness.value)
        page.row("witness", spec.witness, witness->to_string());
    const auto& restarts = spec.restarts;
    page.row("restart delay", restarts.delay, describe(restarts.delay.value));
    page.row(
        "restart refill",
        restarts.refill,
        restarts.refill.value == Duration{} ? "never" : "after " + seconds(restarts.refill));
    page.row("no restart on", restarts.final_codes, describe_codes(restarts.final_codes.value));
    const auto& rounds = restarts.rounds_without_progress;
    page.row(
        "stop without progress",
        rounds,
        rounds.value ? "after " + std::to_string(*rounds.value) + " failed rounds" : "never");
    page.row("late nodes", spec.late_nodes, std::string{control::name_of(spec.late_nodes.value)});
    page.row("max losses", spec.max_losses, std::to_string(spec.max_losses.value));
    page.row("warm", spec.is_warm, spec.is_warm.value ? "1" : "0");
    page.row("recovery", spec.recovery, std::string{control::name_of(spec.recovery.value)});
    if (spec.recovery.value == control::Recovery::automatic)
        page.row(
            "recovery timeout",
            spec.recovery_timeout,
            describe_seconds(spec.recovery_timeout.value) + " s");
    const auto& hang = spec.hang_after;
    page.row(
        "hang after", hang, hang.value ? describe_seconds(*hang.value) + " s" : "not looked for");
    if (hang.value)
        page.row("on hang", spec.on_hang, std::string{control::name_of(spec.on_hang.value)});
    const auto& health = spec.health_check;
    page.row("health check", health, health.value.empty() ? "none" : health.value);
    if (!health.value.empty()) {
        page.row(
            "health timeout",
            spec.health_timeout,
            describe_seconds(spec.health_timeout.value) + " s");
        page.row(
            "without an answer",
            spec.is_health_strict,
            spec.is_health_strict.value ? "the node is unfit" : "the node is fit");
    }
    const auto& xid = spec.follows_xids;
    const auto& problem = spec.why_no_xids;
    page.row(
        "errors of GPUs",
        xid,
        !xid.value ? "ignored" : "looked for" + (problem.empty() ? "" : ", in vain: " + problem));
    const auto& replacement = spec.replacement_timeout;
    page.row(
        "replacement timeout",
        replacement,
        replacement.value ? describe_seconds(*replacement.value) + " s" : "as join_timeout");
    const auto& endpoint = spec.endpoint.value;
    page.row(
        "endpoint",
        spec.endpoint,
        endpoint.port == 0 ? "a free port here" : agent::describe(spec.endpoints()));
    if (spec.is_host.value)
        page.row("serves", spec.is_host, *spec.is_host.value ? "this node" : "another node");
    page.row(
        "local address",
        spec.local_addr,
        spec.local_addr.value.empty() ? "-" : spec.local_addr.value);
    page.row(
        "ports",
        spec.ports,
        std::to_string(spec.ports.value.first) + "-" + std::to_string(spec.ports.value.last));
    page.row("join timeout", spec.join_timeout, seconds(spec.join_timeout));
    page.row("last call timeout", spec.last_call_timeout, seconds(spec.last_call_timeout));
    page.row("lease", spec.lease, seconds(spec.lease));
    page.row("shutdown timeout", spec.grace, seconds(spec.grace));
    const auto& signals = spec.signals;
    page.row("signals that stop", signals.stopping, describe_signals(signals.stopping.value));
    page.row("signals handed on", signals.forwarded, describe_signals(signals.forwarded.value));
    page.row(
        "preemption signal",
        signals.preemption,
        signals.preemption.value == 0 ? "-" : signal_name(signals.preemption.value));
    const auto& deadline = spec.deadline;
    page.row(
        "deadline",
        deadline.length,
        deadline.allocation_end ? "the end of the allocation"
        : deadline.length.value ? describe_seconds(*deadline.length.value) + " s after a notice"
                                : "-");
    page.row(
        "workers' store", spec.shares_store, spec.shares_store.value ? "shared" : "rank 0's own");
    if (spec.secret.place != SecretChoice::Place::none || options.find("store-access"))
        page.row(
            "store access",
            spec.store_access,
            std::string{control::name_of(spec.store_access.value)});
    if (const auto& attached = spec.attachment.value)
        page.row(
            "attached",
            spec.attachment,
            "rank " + std::to_string(attached->rank) +
                (attached->has_terminal ? ": terminal" : ": stdin"));
    const auto& binding = spec.binding;
    page.row("CPU binding", binding.mode.empty() ? "-" : binding.mode, binding.origin);

    add_output(page, spec, options);
    add_report(page, spec, options);
    page.row("log level", level, std::string{log::level_name(level.value)});
    add_rest(page, options);

    page.line("");
    page.sentence("rendezvous: " + server_placement);
    std::string command = spec.command.program;
    for (std::size_t i = 1; i < spec.command.arguments.size(); ++i)
        command += " " + shell_word(spec.command.arguments[i]);
    if (const auto& wrapper = spec.wrapper.value) {
        std::string words = wrapper->program;
        for (std::size_t i = 1; i < wrapper->arguments.size(); ++i)
            words += " " + shell_word(wrapper->arguments[i]);
        page.line("wrapper: " + words);
    }
    page.line("command: " + command);
    if (!spec.command.python_origin.empty()) page.line("python: " + spec.command.python_origin);
    if (!binding.mode.empty()) page.line("CPUs by local rank, " + binding.plan.placed_by + ":");
    for (const auto& worker : describe(binding.plan))
        page.line("  " + worker);
    for (const auto& change : spec.environment_changes)
        page.sentence("environment: " + change.value + " (" + change.origin + ")");
    for (const auto& notice : spec.notices)
        page.sentence("note: " + notice.reason);
    return page.take();
}

}  // namespace ddprun::launcher
