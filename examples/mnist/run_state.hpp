// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "numbers.hpp"
#include "optimizer.hpp"

#include <cstdint>
#include <string>

namespace mnist {

/// The position of a run between two steps. This and the values below are all that a run needs to
/// resume.
struct RunState {
    std::int64_t seed = 0;
    OptimizerKind optimizer = OptimizerKind::sgd;
    /// Steps since the beginning; completed epochs; samples of this epoch that all ranks have used.
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    std::int64_t consumed = 0;
    /// The sum over all ranks in this epoch.
    double loss = 0;
    double correct = 0;
    double samples = 0;
};

/// The prefix of the values that compare_checkpoints compares.
inline constexpr const char* parameter_prefix = "parameters/";

ddprun::Checkpoint to_checkpoint(const RunState& state, const ModelNumbers& numbers);

/// The inverse, in two steps, so that a run can first check that the checkpoint is its own. Both
/// throw ddprun::Error when the checkpoint is from another program.
RunState state_in(const ddprun::Checkpoint& checkpoint);
void take_numbers(const ddprun::Checkpoint& checkpoint, const ModelNumbers& numbers);

}  // namespace mnist
