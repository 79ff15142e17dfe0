// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/driver_functions.hpp"

#include <memory>
#include <variant>

namespace ddprun::nccl {

inline constexpr unsigned event_without_time = 2;  // CU_EVENT_DISABLE_TIMING

/// One GPU: its primary context, which the CUDA runtime uses as well, so that the SDK and the
/// program can share streams, events and memory. Held until the process ends. Any thread.
class Device {
public:
    static std::variant<Device, groups::GroupError> open(
        const DriverFunctions& driver, int ordinal);

    const DriverFunctions& driver() const { return *driver_; }
    DriverFunctions::Context context() const { return context_; }
    int ordinal() const { return ordinal_; }
    groups::GroupError error(DriverFunctions::Status status) const;
    /// Also of the default stream while another one is being captured, as CUDA refuses to wait in
    /// it then. Requires: an OnDevice.
    bool is_capturing(DriverFunctions::Stream stream) const;

private:
    const DriverFunctions* driver_ = nullptr;
    DriverFunctions::Context context_ = nullptr;
    int ordinal_ = 0;
};

/// While it exists, this thread's CUDA calls, including NCCL's, use that device, and none of them
/// invalidates a capture that another thread has begun.
class OnDevice {
public:
    explicit OnDevice(const Device& device);
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    ~OnDevice();

private:
    const Device& device_;
    DriverFunctions::CaptureMode capture_mode_ = DriverFunctions::relaxed;
};

/// A stream on the device, concurrent with all other streams, and an event that can be recorded in
/// it.
class Queue {
public:
    /// Requires: an OnDevice. Throws nothing; sets `error` when the device has no more of them.
    explicit Queue(const Device& device);
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue();

    const groups::Outcome& error() const { return error_; }
    DriverFunctions::Stream stream() const { return stream_; }

    /// Orders later work here after the work that is in the other stream now.
    DriverFunctions::Status follow(DriverFunctions::Stream other) const;
    DriverFunctions::Status mark_end() const;
    /// Orders later work in the other stream after the work that is here now.
    DriverFunctions::Status precede(DriverFunctions::Stream other) const;
    /// Returns 0 when all work up to the last `mark_end` is done, else `not_ready` or an error.
    DriverFunctions::Status look() const;

private:
    const Device& device_;
    DriverFunctions::Stream stream_ = nullptr;
    DriverFunctions::Event end_ = nullptr;
    DriverFunctions::Event before_ = nullptr;
    groups::Outcome error_;
};

}  // namespace ddprun::nccl
