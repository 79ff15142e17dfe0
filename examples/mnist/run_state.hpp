// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "mlp.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace mnist {

/// Where a run is, between two steps; together with the numbers below, all it takes to go on.
struct RunState {
    std::int64_t seed = 0;
    /// Steps since the beginning; whole epochs; samples that all ranks have used of this epoch.
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    std::int64_t consumed = 0;
    /// Over all ranks, of this epoch.
    double loss = 0;
    double correct = 0;
    double samples = 0;
};

/// One pointer for each of Mlp::parameters(), in their order.
using Numbers = std::vector<float*>;

/// What compare_checkpoints looks at begins with this.
inline constexpr const char* parameter_prefix = "parameters/";

ddprun::Checkpoint to_checkpoint(
    const RunState& state, const Numbers& parameters, const Numbers& momentum);

/// The other way round. Throws ddprun::Error when the checkpoint is another program's.
RunState from_checkpoint(
    const ddprun::Checkpoint& checkpoint, const Numbers& parameters, const Numbers& momentum);

}  // namespace mnist
