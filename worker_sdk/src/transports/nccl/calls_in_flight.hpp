// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"

#include <array>
#include <atomic>
#include <cstddef>

namespace ddprun::nccl {

/// Collectives that were begun and not yet waited for, in their order. After each call an event is
/// recorded in the stream. The newest call is open until NCCL has enqueued it; only then can its
/// end be recorded.
///
/// One thread adds, another may remove. Requires: an OnDevice.
class CallsInFlight {
public:
    explicit CallsInFlight(const Device& device);
    CallsInFlight(const CallsInFlight&) = delete;
    CallsInFlight& operator=(const CallsInFlight&) = delete;
    ~CallsInFlight();

    const groups::Outcome& error() const { return error_; }

    bool is_full() const;
    bool is_empty() const;
    /// Adds an open call. Requires: not full, and the newest is not open.
    void add();
    bool is_newest_open() const;
    DriverFunctions::Event newest_end() const;
    /// The end of the newest call was recorded.
    void close_newest();
    /// This function and those below require: not empty.
    bool is_oldest_open() const;
    DriverFunctions::Event oldest_end() const;
    void remove_oldest();

private:
    const Device& device_;
    groups::Outcome error_;
    std::array<DriverFunctions::Event, 32> ends_{};
    // Running totals. Atomic, since a lock for each would make small collectives slower.
    std::atomic<std::size_t> added_ = 0;
    std::atomic<std::size_t> closed_ = 0;
    std::atomic<std::size_t> removed_ = 0;
};

}  // namespace ddprun::nccl
