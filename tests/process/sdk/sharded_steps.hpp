// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/sharded_optimizer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::tests {

/// Parameters whose sizes divide by no number of ranks, in several buckets.
std::vector<ParameterSpec> odd_parameters();
ShardedOptimizer::Options small_buckets(bool is_sgd, ElementType parameter_type);

/// The parameters of rank 0 before the first step.
void set_first_values(ShardedOptimizer& model);
/// A step with gradients that depend on the parameters, the rank and the number of the step,
/// clipped to a norm that is not 0.
void take_step(ShardedOptimizer& model, std::uint64_t number, float max_norm = 0);
/// All parameters, one after the other, as floats.
std::vector<float> values_of(ShardedOptimizer& model);

/// Trains `steps` steps in which each rank has and updates everything: a Reducer, and the whole
/// state on each rank.
std::vector<float> trained_unsharded(
    const ProcessGroup& group,
    const ShardedOptimizer::Options& options,
    std::uint64_t steps,
    float max_norm);

/// Trains both ways, with each optimizer and each type of parameters, clipped and not. The first
/// difference in words; empty when all bits are equal.
std::string difference_from_unsharded(const ProcessGroup& group);

/// Saves a model of 16 Mi floats there, and loads it. Returns in words how much more memory than a
/// tenth of the rank's shard that needed; empty when it was no more.
std::string excess_memory_of_checkpoint(const ProcessGroup& group, const std::string& folder);

}  // namespace ddprun::tests
