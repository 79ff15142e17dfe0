// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"
#include "worker_sdk/src/transports/nccl/driver_functions.hpp"
#include "worker_sdk/src/transports/nccl/nccl_functions.hpp"

#include <map>
#include <mutex>
#include <utility>
#include <variant>

namespace ddprun::nccl {

/// The CUDA driver, NCCL, and the GPUs that were used. Opened when the first group needs them, and
/// never closed: NCCL's threads may use them until the process ends. Any thread.
class Libraries {
public:
    /// Searches again at each call until the libraries are found. GroupError: NCCL or the driver is
    /// missing, or the GPUs cannot be counted.
    static std::variant<Libraries*, groups::GroupError> get();

    std::variant<int, groups::GroupError> device_count() const;
    std::variant<const Device*, groups::GroupError> device(int ordinal);

    const DriverFunctions driver;
    const NcclFunctions nccl;

private:
    Libraries(const DriverFunctions& driver_functions, NcclFunctions nccl_functions)
        : driver(driver_functions),
          nccl(std::move(nccl_functions)) {}

    std::mutex mutex_;
    std::map<int, Device> devices_;
};

}  // namespace ddprun::nccl
