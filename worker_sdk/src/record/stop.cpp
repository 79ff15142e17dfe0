// SPDX-License-Identifier: Apache-2.0
// Records the announcement of a stop.
#include "worker_sdk/src/record/stop.hpp"

#include "ddprun/ddprun.h"
#include "worker_sdk/src/environment_names.hpp"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace {

namespace environment = ddprun::environment;

/// Under every launcher SIGTERM announces a stop; the other signals do so only under ddprun.
constexpr std::array stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
constexpr double longest_seconds = 1e9;

std::atomic<std::int64_t> announced_at_ns = 0;
std::array<struct sigaction, stop_signals.size()> before;
/// Negative: not known.
double shutdown_seconds = -1;

static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a signal handler writes it");

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void on_stop_signal(int number, siginfo_t* info, void* context) {
    std::int64_t never = 0;
    announced_at_ns.compare_exchange_strong(never, now_ns());
    for (std::size_t i = 0; i < stop_signals.size(); ++i) {
        if (stop_signals[i] != number) continue;
        if ((before[i].sa_flags & SA_SIGINFO) != 0)
            before[i].sa_sigaction(number, info, context);
        else if (before[i].sa_handler != SIG_DFL)
            before[i].sa_handler(number);
    }
}

void listen() {
    const char* timeout = ::getenv(environment::shutdown_timeout);
    double seconds = 0;
    if (timeout) {
        const auto* end = timeout + std::strlen(timeout);
        const auto read = std::from_chars(timeout, end, seconds);
        if (read.ec == std::errc{} && read.ptr == end && seconds >= 0)
            shutdown_seconds = std::min(seconds, longest_seconds);
    }
    // All workers of ddprun have this variable, with any value.
    const std::size_t count = timeout ? stop_signals.size() : 1;
    for (std::size_t i = 0; i < count; ++i) {
        ::sigaction(stop_signals[i], nullptr, &before[i]);
        // nohup: an ignored signal stays ignored.
        const bool is_ignored =
            (before[i].sa_flags & SA_SIGINFO) == 0 && before[i].sa_handler == SIG_IGN;
        if (is_ignored) continue;
        struct sigaction action {};
        action.sa_sigaction = on_stop_signal;
        // System calls that wait for a disk or a network are restarted.
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        ::sigemptyset(&action.sa_mask);
        ::sigaction(stop_signals[i], &action, nullptr);
    }
}

}  // namespace

bool ddprun::is_stop_announced() {
    return announced_at_ns.load() != 0;
}

extern "C" int ddprun_should_stop(int64_t* left_ms) {
    static std::once_flag once;
    std::call_once(once, listen);
    const auto announced = announced_at_ns.load();
    if (announced == 0) return 0;
    if (left_ms) {
        const auto end = static_cast<double>(announced) + shutdown_seconds * 1e9;
        const auto left = (end - static_cast<double>(now_ns())) / 1e6;
        *left_ms = shutdown_seconds < 0 ? -1 : static_cast<int64_t>(std::max(left, 0.0));
    }
    return 1;
}
