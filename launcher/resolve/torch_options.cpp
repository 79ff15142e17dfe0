// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace ddprun::launcher {
namespace {

void note(Resolving& job, log::Level level, const Given& given, const std::string& instead) {
    job.note(level, "option.unneeded", given.origin + ": " + instead);
}

Result<> read_intervals(Resolving& job) {
    if (const auto given = job.options.find("monitor-interval")) {
        const auto interval = parse_duration(given->text);
        if (!interval || *interval <= Duration::zero())
            return usage(
                given->origin,
                given->text,
                "accepted are " + std::string{duration_forms} + ", above 0");
        note(job, log::Level::debug, *given, "workers are not polled, their end is seen at once");
    }
    if (const auto given = job.options.find("exit-barrier-timeout")) {
        if (const auto length = duration_between(*given, Duration{}); !length)
            return length.error();
        note(
            job,
            log::Level::debug,
            *given,
            "a node whose workers are done waits as long as the others run");
    }
    return {};
}

Result<> read_start_method(Resolving& job) {
    const auto given = job.options.find("start-method");
    if (!given) return {};
    constexpr std::array<std::string_view, 3> methods{"spawn", "fork", "forkserver"};
    if (std::find(methods.begin(), methods.end(), given->text) == methods.end())
        return usage(given->origin, given->text, "accepted are spawn, fork and forkserver");
    note(job, log::Level::debug, *given, "workers are programs of their own, started one way");
    return {};
}

/// torchrun fails if a name is unknown. No plug-in can be loaded here, so every name is an error.
Result<> read_plugins(Resolving& job) {
    const auto handler = job.options.find("event-log-handler");
    if (handler && handler->text != "null")
        note(
            job,
            log::Level::warning,
            *handler,
            "handlers written in Python are not loaded; --event-file=PATH writes the events");
    const auto specs = job.options.find("logs-specs");
    if (specs && specs->text != "default")
        return usage(
            specs->origin,
            specs->text,
            "accepted is default: plug-ins written in Python are not loaded; --log-dir, "
            "--redirects and --tee choose what is written");
    return {};
}

/// torch's watchdog is a pipe that its launcher reads. Here no process would read it, and a
/// script's timers would block.
void read_watchdog(Resolving& job) {
    const std::string variable = "TORCHELASTIC_ENABLE_FILE_TIMER";
    if (value_of(job.system.environment, variable).value_or("") != "1") return;
    job.note(
        log::Level::warning,
        "option.ignored",
        variable +
            ": ddprun serves no watchdog timers; a script that sets some finds no pipe in "
            "TORCHELASTIC_TIMER_FILE");
}

}  // namespace

Result<> resolve_torch_options(Resolving& job) {
    if (auto read = read_intervals(job); !read) return read.error();
    if (auto read = read_start_method(job); !read) return read.error();
    if (auto read = read_plugins(job); !read) return read.error();
    read_watchdog(job);
    return {};
}

}  // namespace ddprun::launcher
