// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"

#include <chrono>
#include <cstdint>

namespace ddprun {

/// Whether this worker was told to stop, and how long it may go on: time to save and leave.
struct StopNotice {
    bool is_announced = false;
    /// When the launcher ends this process; far in the future when nobody said.
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

    explicit operator bool() const { return is_announced; }
};

/// Asks. The first call is what asks to be told: from then on SIGTERM, and under ddprun also the
/// other signals with which it announces a stop (SIGINT, SIGHUP, SIGQUIT), no longer end the
/// process but are noted here. A handler that the program installed before is still called; one
/// that it installs later replaces this one. Call it once before the training loop, then once per
/// step: it costs a few nanoseconds. Any thread.
///
/// The ranks do not hear of it in the same step. Before acting on it, agree: all_reduce what this
/// says with Op::max.
///
/// The deadline is the moment of the signal plus DDPRUN_SHUTDOWN_TIMEOUT, which ddprun sets to what
/// its --shutdown-timeout is. After it comes SIGKILL.
inline StopNotice should_stop() {
    std::int64_t left_ms = -1;
    StopNotice notice;
    notice.is_announced = ddprun_should_stop(&left_ms) != 0;
    if (notice.is_announced && left_ms >= 0)
        notice.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(left_ms);
    return notice;
}

}  // namespace ddprun
