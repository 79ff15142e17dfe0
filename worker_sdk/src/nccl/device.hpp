// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/trouble.hpp"
#include "worker_sdk/src/nccl/driver_functions.hpp"

#include <memory>
#include <variant>

namespace ddprun::nccl {

inline constexpr unsigned event_without_time = 2;  // CU_EVENT_DISABLE_TIMING

/// One GPU: its primary context, which is the one that CUDA's runtime uses as well, so that
/// streams, events and memory of ours and of the program are of one kind. Held until the process
/// ends. Any thread.
class Device {
public:
    static std::variant<Device, groups::Trouble> open(const DriverFunctions& driver, int ordinal);

    const DriverFunctions& driver() const { return *driver_; }
    DriverFunctions::Context context() const { return context_; }
    int ordinal() const { return ordinal_; }
    groups::Trouble trouble(DriverFunctions::Status status) const;
    /// Requires: an OnDevice.
    bool is_capturing(DriverFunctions::Stream stream) const;

private:
    const DriverFunctions* driver_ = nullptr;
    DriverFunctions::Context context_ = nullptr;
    int ordinal_ = 0;
};

/// While it lives this thread's CUDA calls, NCCL's among them, are about that device, and none of
/// them spoils a capture that another thread has begun.
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

/// A queue on the device, and an event that can be recorded in it. Beside all other streams.
class Queue {
public:
    /// Requires: an OnDevice. Throws nothing; `trouble` when the device has no more of them.
    explicit Queue(const Device& device);
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue();

    const groups::Outcome& trouble() const { return trouble_; }
    DriverFunctions::Stream stream() const { return stream_; }

    /// What is enqueued from now on comes after what is in that stream now.
    DriverFunctions::Status follow(DriverFunctions::Stream other) const;
    DriverFunctions::Status mark_end() const;
    /// What is enqueued in that stream from now on comes after what is in this one now.
    DriverFunctions::Status precede(DriverFunctions::Stream other) const;
    /// 0 when all is done up to the last `mark_end`, `not_ready`, or an error.
    DriverFunctions::Status look() const;

private:
    const Device& device_;
    DriverFunctions::Stream stream_ = nullptr;
    DriverFunctions::Event end_ = nullptr;
    DriverFunctions::Event before_ = nullptr;
    groups::Outcome trouble_;
};

}  // namespace ddprun::nccl
