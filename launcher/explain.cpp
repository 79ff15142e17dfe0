// SPDX-License-Identifier: Apache-2.0
#include "launcher/explain.hpp"

#include "launcher/node_range.hpp"
#include "launcher/number.hpp"

#include <algorithm>
#include <cctype>

namespace ddprun::launcher {
namespace {

/// As a shell would need it typed.
std::string shell_word(const std::string& word) {
    constexpr std::string_view plain = "-_./:=,+@%^";
    const bool is_plain =
        !word.empty() && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
            return std::isalnum(c) != 0 ||
                   plain.find(static_cast<char>(c)) != std::string_view::npos;
        });
    if (is_plain) return word;
    std::string quoted = "'";
    for (const char c : word)
        quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
    return quoted + "'";
}

class Page {
public:
    void row(const std::string& name, const std::string& value, const std::string& origin) {
        std::string line = "  " + padded(name, 20) + padded(value, 26);
        text_ += line + origin + "\n";
    }
    template <class T>
    void row(const std::string& name, const From<T>& value, const std::string& shown) {
        row(name, shown, value.origin);
    }
    void line(const std::string& text) { text_ += text + "\n"; }
    std::string take() { return std::move(text_); }

private:
    static std::string padded(std::string text, std::size_t width) {
        if (text.size() < width) text.append(width - text.size(), ' ');
        return text.ends_with(' ') ? text : text + "  ";
    }

    std::string text_;
};

std::string seconds(const From<Duration>& length) {
    return describe_seconds(length.value) + " s";
}

}  // namespace

std::string explain(const JobSpec& spec, const std::string& who_serves) {
    Page page;
    page.row("value", "", "from");
    page.row("run id", spec.run_id, spec.run_id.value);
    page.row("nodes", spec.nodes, describe(spec.nodes.value));
    page.row("workers per node", spec.nproc, std::to_string(spec.nproc.value));
    if (spec.has_virtual_local_rank.value)
        page.row("local rank", spec.has_virtual_local_rank, "0, one GPU each");
    page.row("role", spec.role, spec.role.value);
    const auto& rank = spec.node_rank;
    page.row("node rank", rank, rank.value ? std::to_string(*rank.value) : "any");
    page.row("max restarts", spec.max_restarts, std::to_string(spec.max_restarts.value));
    page.row("rendezvous", spec.is_static, spec.is_static.value ? "static" : "c10d");
    const auto& restarts = spec.restarts;
    page.row("restart delay", restarts.delay, describe(restarts.delay.value));
    page.row(
        "restart refill",
        restarts.refill,
        restarts.refill.value == Duration{} ? "never" : "after " + seconds(restarts.refill));
    page.row("no restart on", restarts.final_codes, describe_codes(restarts.final_codes.value));
    const auto& endpoint = spec.endpoint.value;
    page.row(
        "endpoint", spec.endpoint, endpoint.port == 0 ? "a free port here" : endpoint.to_string());
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
        "workers' store", spec.shares_store, spec.shares_store.value ? "shared" : "rank 0's own");
    const auto& binding = spec.binding;
    page.row("CPU binding", binding.mode.empty() ? "-" : binding.mode, binding.origin);

    page.line("\nrendezvous: " + who_serves);
    std::string command = spec.command.program;
    for (std::size_t i = 1; i < spec.command.arguments.size(); ++i)
        command += " " + shell_word(spec.command.arguments[i]);
    page.line("command: " + command);
    if (!spec.command.python_origin.empty()) page.line("python: " + spec.command.python_origin);
    if (!binding.mode.empty()) page.line("CPUs by local rank, " + binding.plan.placed_by + ":");
    for (const auto& worker : describe(binding.plan))
        page.line("  " + worker);
    for (const auto& output : spec.output.explanations)
        page.line("output: " + output);
    for (const auto& change : spec.environment_changes)
        page.line("environment: " + change.value + " (" + change.origin + ")");
    for (const auto& notice : spec.notices)
        page.line("note: " + notice.reason);
    return page.take();
}

}  // namespace ddprun::launcher
