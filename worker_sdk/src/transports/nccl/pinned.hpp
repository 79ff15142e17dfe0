// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/nccl/device.hpp"

#include <cstddef>

namespace ddprun::nccl {

/// Zeroed host memory that the device can read and write too.
class Pinned {
public:
    /// Requires: an OnDevice. Sets `status` when memory is exhausted.
    Pinned(const Device& device, std::size_t bytes);
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    ~Pinned();

    DriverFunctions::Status status() const { return status_; }
    char* data() const { return static_cast<char*>(data_); }
    /// The device's address of the same memory.
    DriverFunctions::DevicePointer on_device() const { return on_device_; }

private:
    const Device& device_;
    void* data_ = nullptr;
    DriverFunctions::DevicePointer on_device_ = 0;
    DriverFunctions::Status status_ = 0;
};

}  // namespace ddprun::nccl
