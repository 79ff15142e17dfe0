// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/signal_options.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/text.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

namespace ddprun::launcher {
namespace {

/// The signals that other programs send and that the agent can read. SIGTSTP and SIGCONT are for
/// the terminal; the remaining signals report events of the process itself.
constexpr std::array known_signals{
    SIGTERM,
    SIGINT,
    SIGHUP,
    SIGQUIT,
    SIGUSR1,
    SIGUSR2,
    SIGALRM,
    SIGVTALRM,
    SIGPROF,
    SIGWINCH,
    SIGPWR,
    SIGURG,
    SIGXCPU};

/// "SIGUSR1", "usr1".
std::optional<int> parse_signal(std::string_view text) {
    std::string name{trimmed(text)};
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
        return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    });
    if (!name.starts_with("SIG")) name = "SIG" + name;
    const auto* const found =
        std::find_if(known_signals.begin(), known_signals.end(), [&](int signal) {
            return signal_name(signal) == name;
        });
    if (found == known_signals.end()) return std::nullopt;
    return *found;
}

struct Names {
    std::vector<int> signals;
    std::vector<std::string> unknown;
};

Names parse_names(std::string_view list) {
    Names names;
    for (const auto part : split(list, ',')) {
        const auto word = trimmed(part);
        const auto signal = parse_signal(word);
        if (!signal && !word.empty()) names.unknown.emplace_back(word);
        const bool is_new =
            signal &&
            std::find(names.signals.begin(), names.signals.end(), *signal) == names.signals.end();
        if (is_new) names.signals.push_back(*signal);
    }
    return names;
}

/// The warning signals that a user may have Slurm send before the end (`--signal=USR1@120`), unless
/// they stop the job.
std::vector<int> warnings_besides(const std::vector<int>& stopping) {
    std::vector<int> warnings;
    for (const int signal : {SIGUSR1, SIGUSR2})
        if (std::find(stopping.begin(), stopping.end(), signal) == stopping.end())
            warnings.push_back(signal);
    return warnings;
}

bool has(const std::vector<int>& signals, int signal) {
    return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

std::string accepted() {
    return "accepted are " + describe_signals({known_signals.begin(), known_signals.end()});
}

/// Requires: the other two lists are chosen.
Result<> choose_preemption(SignalChoice& choice, const Options& options) {
    const auto given = options.find("preempt-signal");
    if (!given) return {};
    const auto signal = parse_signal(given->text);
    const auto refuse = [&](const std::string& why) {
        return Failure{system_code(EINVAL), given->origin + ": '" + given->text + "': " + why};
    };
    if (!signal) return refuse(accepted());
    if (has(choice.stopping.value, *signal))
        return refuse(
            signal_name(*signal) + " stops the job (--signals-to-handle)" +
            (*signal == SIGTERM ? "; where the workers call should_save, all ranks save before"
                                : ""));
    if (options.find("signals-to-forward") && has(choice.forwarded.value, *signal))
        return refuse(signal_name(*signal) + " is handed on (--signals-to-forward)");
    std::erase(choice.forwarded.value, *signal);
    choice.preemption = {*signal, given->origin};
    return {};
}

Result<> choose_forwarded(SignalChoice& choice, const Options& options, bool is_slurm_task) {
    const auto given = options.find("signals-to-forward");
    if (!given) {
        if (is_slurm_task)
            choice.forwarded = {warnings_besides(choice.stopping.value), "Slurm step"};
        return {};
    }
    auto names = parse_names(given->text);
    if (!names.unknown.empty())
        return Failure{
            system_code(EINVAL),
            given->origin + ": '" + names.unknown.front() + "': " + accepted()};
    for (const int signal : names.signals) {
        if (!has(choice.stopping.value, signal)) continue;
        return Failure{
            system_code(EINVAL),
            given->origin + ": '" + given->text + "': " + signal_name(signal) +
                " stops the job (--signals-to-handle); it cannot be handed on without"};
    }
    choice.forwarded = {std::move(names.signals), given->origin};
    return {};
}

}  // namespace

Result<SignalChoice> signal_choice(const Options& options, bool is_slurm_task) {
    SignalChoice choice{
        {{SIGTERM, SIGINT, SIGHUP, SIGQUIT}, "default"}, {{}, "default"}, {0, "default"}, {}};
    if (const auto given = options.find("signals-to-handle")) {
        auto names = parse_names(given->text);
        for (const auto& word : names.unknown)
            choice.warnings.push_back(given->origin + ": '" + word + "': " + accepted());
        choice.stopping = {std::move(names.signals), given->origin};
    }
    if (auto chosen = choose_forwarded(choice, options, is_slurm_task); !chosen)
        return chosen.error();
    if (auto chosen = choose_preemption(choice, options); !chosen) return chosen.error();
    return choice;
}

std::string describe_signals(const std::vector<int>& signals) {
    std::string text;
    for (const int signal : signals)
        text += (text.empty() ? "" : ",") + signal_name(signal);
    return text.empty() ? "none" : text;
}

}  // namespace ddprun::launcher
