// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/nccl/overseer.hpp"

#include "rendezvous/base/signal_masked_thread.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::nccl {

using namespace std::chrono_literals;

Overseer::Overseer(EndProcess end_process)
    : end_process_(std::move(end_process)),
      thread_(start_signal_masked_thread([this] {
          std::unique_lock lock(mutex_);
          while (!ended_.wait_for(
              lock, waiting_times::hang_check_interval, [this] { return is_over_; }))
              look();
      })) {}

Overseer::~Overseer() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    ended_.notify_all();
    thread_.join();
}

void Overseer::look() {
    const auto now = Clock::now().time_since_epoch().count();
    const bool is_stuck = std::any_of(moments_.begin(), moments_.end(), [now](const auto& moment) {
        return moment != none && moment < now;
    });
    if (is_stuck)
        end_process_(
            "a call of NCCL or of the CUDA driver has not returned long after the group's timeout: "
            "the GPU or its driver is stuck; this process ends so that the launcher can start "
            "another");
}

}  // namespace ddprun::nccl
