// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun {

/// Which samples this rank trains on in an epoch: PyTorch's DistributedSampler, bit for bit, with a
/// resume that allows another world size.
///
/// The order of an epoch is a permutation made from seed + epoch alone, the same on every rank and
/// for every world size. Rank r of R takes its elements r, r + R, r + 2R, ... So that all ranks get
/// equally many, the order is padded from its front until R divides its length, or cut with
/// `drop_last`.
///
/// Call `set_epoch` before each epoch: without it every epoch has the same order. When accuracy is
/// measured, the padding counts up to R - 1 samples twice.
///
/// A plain value without clock, random source or communication; any thread may own it.
class DistributedSampler {
public:
    struct Options {
        bool shuffle = true;
        std::uint64_t seed = 0;
        bool drop_last = false;
    };

    /// All that is needed to resume in the middle of an epoch, with any number of ranks.
    struct State {
        std::uint64_t seed = 0;
        std::uint64_t epoch = 0;
        /// Samples that the whole job, all ranks together, has used of this epoch.
        std::uint64_t consumed = 0;
    };

    /// Throws UsageError unless 0 <= rank < world_size.
    DistributedSampler(
        std::uint64_t sample_count, int world_size, int rank, const Options& options);
    DistributedSampler(std::uint64_t sample_count, int world_size, int rank);

    /// Begins an epoch: nothing of it is consumed.
    void set_epoch(std::uint64_t epoch);

    /// How many samples of this epoch are left for this rank: the same number on every rank.
    std::uint64_t size() const;

    /// Their indices, in the order in which to use them.
    std::vector<std::uint64_t> indices() const;

    /// The job, all ranks together, has used `samples` more, the padding included. Call it when
    /// their step is committed; `indices` then begins after them.
    void advance(std::uint64_t samples) { state_.consumed += samples; }

    const State& state() const { return state_; }

    /// Continues at the state of a job of any world size. No sample is lost or used twice, except
    /// for the padding at the end of the epoch.
    void resume(const State& state) { state_ = state; }

private:
    std::uint64_t remaining() const;

    std::uint64_t sample_count_;
    std::uint64_t world_size_;
    std::uint64_t rank_;
    bool shuffle_;
    bool drop_last_;
    State state_;
};

}  // namespace ddprun
