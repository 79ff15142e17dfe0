// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "numbers.hpp"
#include "optimizer.hpp"

#include <cstdint>
#include <string>

namespace mnist {

/// Where a run is, between two steps; together with the numbers below, all it takes to go on.
struct RunState {
    std::int64_t seed = 0;
    OptimizerKind optimizer = OptimizerKind::sgd;
    /// Steps since the beginning; whole epochs; samples that all ranks have used of this epoch.
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    std::int64_t consumed = 0;
    /// Over all ranks, of this epoch.
    double loss = 0;
    double correct = 0;
    double samples = 0;
};

/// What compare_checkpoints looks at begins with this.
inline constexpr const char* parameter_prefix = "parameters/";

ddprun::Checkpoint to_checkpoint(const RunState& state, const ModelNumbers& numbers);

/// The other way round, in two steps, so that a run can first look whether it is its own. Both
/// throw ddprun::Error when the checkpoint is another program's.
RunState state_in(const ddprun::Checkpoint& checkpoint);
void take_numbers(const ddprun::Checkpoint& checkpoint, const ModelNumbers& numbers);

}  // namespace mnist
