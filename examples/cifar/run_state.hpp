// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "gpu_network.hpp"

#include <cstdint>

namespace cifar {

/// Where a run is, between two steps; together with what the network holds, all it takes to go on.
struct RunState {
    std::int64_t seed = 0;
    std::int64_t width = 0;
    /// Steps since the beginning; whole epochs; samples that all ranks have used of this epoch.
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    std::int64_t consumed = 0;
    /// Over all ranks, of this epoch.
    double loss = 0;
    double correct = 0;
    double samples = 0;
};

/// Waits for the GPU.
ddprun::Checkpoint to_checkpoint(
    const RunState& state, const Architecture& architecture, const GpuNetwork& network);

/// Throws ddprun::Error when the checkpoint is another program's.
RunState state_in(const ddprun::Checkpoint& checkpoint);

/// The rest of it. The same holds.
void take_numbers(
    const ddprun::Checkpoint& checkpoint, const Architecture& architecture, GpuNetwork& network);

}  // namespace cifar
