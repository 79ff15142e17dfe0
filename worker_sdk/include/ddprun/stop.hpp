// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"

#include <chrono>
#include <cstdint>

namespace ddprun {

/// Whether this worker was asked to stop, and how much time is left to save and exit.
struct StopNotice {
    bool is_announced = false;
    /// When the launcher kills this process; far in the future when that is not known.
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

    explicit operator bool() const { return is_announced; }
};

/// The first call installs signal handlers. From then on SIGTERM is recorded here and no longer
/// ends the process; under ddprun also the other signals with which it announces a stop (SIGINT,
/// SIGHUP, SIGQUIT). A handler that the program installed before is still called; one that it
/// installs later replaces this one. Call it once before the training loop, then once per step: it
/// costs a few nanoseconds. Any thread.
///
/// The ranks may notice the stop in different steps. Before acting on it, they must agree:
/// all_reduce the result with Op::max.
///
/// The deadline is the time of the signal plus DDPRUN_SHUTDOWN_TIMEOUT, which ddprun sets to its
/// --shutdown-timeout. SIGKILL follows it.
inline StopNotice should_stop() {
    std::int64_t left_ms = -1;
    StopNotice notice;
    notice.is_announced = ddprun_should_stop(&left_ms) != 0;
    if (notice.is_announced && left_ms >= 0)
        notice.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(left_ms);
    return notice;
}

/// Whether every rank must save now: true once, in the same step on each of them, before a node is
/// taken away (docs/preemption.md). Every rank calls it at the same place of each step. Steps must
/// not decrease, and must be below 2^54 - 2; for any other step the result is false. A call takes a
/// few nanoseconds. While the ranks agree on a step, a rank that has reached it waits some
/// milliseconds, at most until the time for the save is over. No collective is needed. One thread.
///
///   if (ddprun::should_save(step)) {
///       save(step);
///       ddprun::saved(step);
///   }
///
/// Without ddprun the result is false.
inline bool should_save(std::uint64_t step) {
    return ddprun_should_save(step) != 0;
}

/// Reports that the save for which `should_save(step)` was true is complete and survives the end of
/// this process. Then the job stops. Any other step has no effect. Any thread.
inline void saved(std::uint64_t step) {
    ddprun_saved(step);
}

}  // namespace ddprun
