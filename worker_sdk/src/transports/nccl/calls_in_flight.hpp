// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ddprun::nccl {

/// Collectives that were begun and not yet waited for, in their order. After each call an event is
/// recorded in the stream. The newest call is open until NCCL has enqueued it; only then can its
/// end be recorded.
///
/// One thread adds, another may remove, any may ask for the end of a call: one that is removed
/// meanwhile may get the end of a later call, which it does not need. Requires: an OnDevice.
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
    void add(std::uint64_t sequence);
    /// Whether this call is the newest and open.
    bool is_open(std::uint64_t sequence) const;
    /// The recorded end of a call that is not open; null when it was removed.
    DriverFunctions::Event end_of(std::uint64_t sequence) const;
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
    std::array<std::atomic<std::uint64_t>, 32> sequences_{};
    // Running totals. Atomic, since a lock for each would make small collectives slower.
    std::atomic<std::size_t> added_ = 0;
    std::atomic<std::size_t> closed_ = 0;
    std::atomic<std::size_t> removed_ = 0;
};

}  // namespace ddprun::nccl
