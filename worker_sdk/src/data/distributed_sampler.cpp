// SPDX-License-Identifier: Apache-2.0
#include "ddprun/distributed_sampler.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/data/permutation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

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
    set_shares(options.shares);
}

DistributedSampler::DistributedSampler(std::uint64_t sample_count, int world_size, int rank)
    : DistributedSampler(sample_count, world_size, rank, Options{}) {}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
    state_.epoch = epoch;
    state_.consumed = 0;
}

void DistributedSampler::set_shares(std::vector<std::uint64_t> shares) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    std::uint64_t sum = 0;
    for (const auto share : shares) {
        if (share < 1 || share > most - sum)
            throw UsageError(
                "DistributedSampler: shares are at least 1 each and together below 2^32");
        sum += share;
    }
    if (!shares.empty() && shares.size() != world_size_)
        throw UsageError(
            "DistributedSampler: " + std::to_string(shares.size()) + " shares in a world of " +
            std::to_string(world_size_));
    shares_ = std::move(shares);
    samples_per_step_ = sum;
}

/// Requires: there are shares.
DistributedSampler::Steps DistributedSampler::steps() const {
    const auto left = remaining();
    const auto own = shares_.begin() + static_cast<std::ptrdiff_t>(rank_);
    const auto before = std::accumulate(shares_.begin(), own, std::uint64_t{0});
    const auto rest = drop_last_ ? 0 : left % samples_per_step_;
    // Both factors are below 2^32. Rounding the bounds instead of the counts assigns each sample
    // exactly once.
    const auto last_before = rest * before / samples_per_step_;
    const auto last_end = rest * (before + *own) / samples_per_step_;
    return {left / samples_per_step_, before, last_before, last_end - last_before};
}

/// The rest of a resumed epoch is distributed like an epoch of that length. With the same world
/// size it equals the rest of the uninterrupted epoch, padding included.
std::uint64_t DistributedSampler::remaining() const {
    return sample_count_ - std::min(sample_count_, state_.consumed);
}

std::uint64_t DistributedSampler::size() const {
    if (!shares_.empty()) {
        const auto steps = this->steps();
        return steps.whole * shares_[rank_] + steps.last;
    }
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

    if (!shares_.empty()) return shared_out(order);

    const auto first = std::min(sample_count_, state_.consumed) + rank_;
    std::vector<std::uint64_t> mine(size());
    for (std::uint64_t i = 0; i < mine.size(); ++i)
        // The index wraps around at the end of the order: that is PyTorch's padding, of any length.
        mine[i] = order[(first + i * world_size_) % sample_count_];
    return mine;
}

std::vector<std::uint64_t> DistributedSampler::shared_out(
    const std::vector<std::uint64_t>& order) const {
    const auto steps = this->steps();
    auto next = order.end() - static_cast<std::ptrdiff_t>(remaining());
    std::vector<std::uint64_t> mine;
    mine.reserve(size());
    const auto take = [&](std::uint64_t before, std::uint64_t count) {
        const auto first = next + static_cast<std::ptrdiff_t>(before);
        mine.insert(mine.end(), first, first + static_cast<std::ptrdiff_t>(count));
    };
    for (std::uint64_t step = 0; step < steps.whole; ++step) {
        take(steps.before, shares_[rank_]);
        next += static_cast<std::ptrdiff_t>(samples_per_step_);
    }
    take(steps.last_before, steps.last);
    return mine;
}

std::vector<std::uint64_t> shares_by_speed(
    const std::vector<double>& samples_per_second, std::uint64_t samples_per_step) {
    const auto ranks = samples_per_second.size();
    for (const auto speed : samples_per_second)
        if (!std::isfinite(speed) || speed <= 0)
            throw UsageError("shares_by_speed: a speed is finite and above 0");
    if (samples_per_step < ranks)
        throw UsageError(
            "shares_by_speed: " + std::to_string(samples_per_step) + " samples for " +
            std::to_string(ranks) + " ranks");
    if (ranks == 0) return {};
    // Relative speeds, whose sum is finite.
    const auto fastest = *std::max_element(samples_per_second.begin(), samples_per_second.end());
    std::vector<double> speeds;
    for (const auto speed : samples_per_second)
        speeds.push_back(speed / fastest);
    const auto sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    std::vector<std::uint64_t> shares;
    for (const auto speed : speeds) {
        const auto part = std::floor(static_cast<double>(samples_per_step) * speed / sum);
        shares.push_back(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(part)));
    }
    // Rounding down leaves fewer samples than there are ranks. Each goes to the rank that would
    // still end first with it. When a share was raised to 1, the sample for it is taken from the
    // rank that would end last.
    auto given = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
    const auto time_with = [&](std::size_t rank, std::uint64_t share) {
        return static_cast<double>(share) / speeds[rank];
    };
    for (; given < samples_per_step; ++given) {
        std::size_t best = 0;
        for (std::size_t rank = 1; rank < ranks; ++rank)
            if (time_with(rank, shares[rank] + 1) < time_with(best, shares[best] + 1)) best = rank;
        ++shares[best];
    }
    for (; given > samples_per_step; --given) {
        std::optional<std::size_t> last;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            if (shares[rank] == 1) continue;
            if (!last || time_with(rank, shares[rank]) > time_with(*last, shares[*last]))
                last = rank;
        }
        --shares[*last];
    }
    return shares;
}

}  // namespace ddprun
