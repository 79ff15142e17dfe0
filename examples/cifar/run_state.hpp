// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "gpu_network.hpp"

#include <cstdint>

namespace cifar {

/// The position of a run between two steps. This and the network's values are all that a run needs
/// to resume.
struct RunState {
    std::int64_t seed = 0;
    std::int64_t width = 0;
    /// Steps since the beginning; completed epochs; samples of this epoch that all ranks have used.
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    std::int64_t consumed = 0;
    /// The sum over all ranks in this epoch.
    double loss = 0;
    double correct = 0;
    double samples = 0;
};

/// Waits for the GPU.
ddprun::Checkpoint to_checkpoint(
    const RunState& state, const Architecture& architecture, const GpuNetwork& network);

/// Throws ddprun::Error when the checkpoint is from another program.
RunState state_in(const ddprun::Checkpoint& checkpoint);

/// Copies the values of the checkpoint into the network. Throws ddprun::Error when the checkpoint
/// is from another program.
void take_numbers(
    const ddprun::Checkpoint& checkpoint, const Architecture& architecture, GpuNetwork& network);

}  // namespace cifar
