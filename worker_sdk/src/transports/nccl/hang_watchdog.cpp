// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/hang_watchdog.hpp"

#include "worker_sdk/src/start_thread.hpp"
#include "worker_sdk/src/transports/nccl/end_process.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>

namespace ddprun::nccl {

HangWatchdog::HangWatchdog()
    : thread_(start_thread([this] {
          std::unique_lock lock(mutex_);
          while (!ended_.wait_for(
              lock, waiting_times::hang_check_interval, [this] { return is_over_; }))
              look();
      })) {}

HangWatchdog::~HangWatchdog() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    ended_.notify_all();
    thread_.join();
}

void HangWatchdog::look() {
    const auto now = Clock::now().time_since_epoch().count();
    const bool is_stuck =
        std::any_of(latest_ends_.begin(), latest_ends_.end(), [now](const auto& end) {
            return end != none && end < now;
        });
    if (is_stuck)
        end_process(
            "a call of NCCL or of the CUDA driver has not returned long after the group's timeout: "
            "the GPU or its driver is stuck; this process ends so that the launcher can start "
            "another");
}

}  // namespace ddprun::nccl
