// SPDX-License-Identifier: Apache-2.0
#include "ddprun/distributed_sampler.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/data/permutation.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace ddprun {

DistributedSampler::DistributedSampler(
    std::uint64_t sample_count, int world_size, int rank, const Options& options)
    : sample_count_(sample_count),
      world_size_(static_cast<std::uint64_t>(world_size)),
      rank_(static_cast<std::uint64_t>(rank)),
      shuffle_(options.shuffle),
      drop_last_(options.drop_last),
      state_{options.seed, 0, 0} {
    if (world_size < 1 || rank < 0 || rank >= world_size)
        throw UsageError(
            "DistributedSampler: rank " + std::to_string(rank) + " in a world of " +
            std::to_string(world_size) + "; the rank must lie between 0 and world_size - 1");
}

DistributedSampler::DistributedSampler(std::uint64_t sample_count, int world_size, int rank)
    : DistributedSampler(sample_count, world_size, rank, Options{}) {}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
    state_.epoch = epoch;
    state_.consumed = 0;
}

/// The rest of a resumed epoch is distributed like an epoch of that length. With the same world
/// size it equals the rest of the uninterrupted epoch, padding included.
std::uint64_t DistributedSampler::remaining() const {
    return sample_count_ - std::min(sample_count_, state_.consumed);
}

std::uint64_t DistributedSampler::size() const {
    const auto left = remaining();
    const auto rest = left % world_size_;
    return left / world_size_ + (rest != 0 && !drop_last_ ? 1 : 0);
}

std::vector<std::uint64_t> DistributedSampler::indices() const {
    std::vector<std::uint64_t> order;
    if (shuffle_) {
        order = data::torch_permutation(sample_count_, state_.seed + state_.epoch);
    } else {
        order.resize(sample_count_);
        std::iota(order.begin(), order.end(), std::uint64_t{0});
    }

    const auto first = std::min(sample_count_, state_.consumed) + rank_;
    std::vector<std::uint64_t> mine(size());
    for (std::uint64_t i = 0; i < mine.size(); ++i)
        // Past its end the order begins again: that is PyTorch's padding, of any length.
        mine[i] = order[(first + i * world_size_) % sample_count_];
    return mine;
}

}  // namespace ddprun
