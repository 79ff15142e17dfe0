// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"
#include "worker_sdk/src/transports/nccl/polling.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ddprun::nccl {

/// Monitors work that a host thread has enqueued without waiting: until that work is done, it makes
/// the checks of a waiting thread and aborts in its place.
class Watchdog {
public:
    struct Settings {
        /// How long one piece of work may take.
        std::chrono::milliseconds timeout{};
        /// Returns the error, if there is one.
        std::function<groups::Outcome()> look;
        /// Ends the work.
        std::function<void(groups::GroupError)> abort;
    };

    /// Requires: an OnDevice.
    Watchdog(const Device& device, Settings settings);
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
    ~Watchdog();

    const groups::Outcome& cannot_begin() const { return cannot_begin_; }

    /// Watches the work that is in the stream now. Requires: an OnDevice; the stream is not being
    /// captured, and is ordered after the streams watched before.
    DriverFunctions::Status watch(DriverFunctions::Stream stream);
    /// Whether the watched work is done (or failed on the device). Requires: an OnDevice.
    bool is_over();

private:
    void serve();
    groups::Outcome look();

    const Device& device_;
    const Settings settings_;
    groups::Outcome cannot_begin_;
    std::mutex mutex_;  // guards what follows
    std::condition_variable closing_;
    DriverFunctions::Event last_ = nullptr;
    bool is_watching_ = false;
    Clock::time_point since_;
    bool is_closing_ = false;
    std::thread thread_;  // last: it uses everything above
};

}  // namespace ddprun::nccl
