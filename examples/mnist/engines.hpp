// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine.hpp"

#include <functional>
#include <memory>

namespace mnist {

enum class Device { cpu, cuda };

using MakeEngine = std::function<std::unique_ptr<Engine>(
    const EngineOptions&, const Dataset& train, const Dataset& test)>;

/// Returns the factory of engines for this device. For a GPU it opens the driver, cuBLASLt and the
/// program's CUDA part; throws gpu::Unavailable when one of them is missing.
MakeEngine open_device(Device device);

}  // namespace mnist
