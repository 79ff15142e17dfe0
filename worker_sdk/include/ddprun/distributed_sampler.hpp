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
/// Ranks of different speed: with `shares` a step takes the next sum(shares) elements of the order,
/// of which rank r gets shares[r], one behind the other, in the order of ranks. The last step of an
/// epoch divides what is left by the shares. So every sample is used once, without padding, also
/// when the shares or the world size change between two steps. A rank's gradient is then the mean
/// of another number of samples: multiply it by (its samples * R / samples of the step) for the
/// mean over all. In the last step a rank may have no sample: then it has one step less than
/// others, so use the `Reducer`'s uneven inputs and `join`, or `drop_last`.
///
/// A plain value without clock, random source or communication; any thread may own it.
class DistributedSampler {
public:
    struct Options {
        bool shuffle = true;
        std::uint64_t seed = 0;
        bool drop_last = false;
        /// Samples of each rank in one step, the same list on every rank: `shares_by_speed`. Empty:
        /// PyTorch's order, in which all ranks get equally many. With `drop_last` the last step is
        /// left out unless it is whole.
        std::vector<std::uint64_t> shares{};
    };

    /// All that is needed to resume in the middle of an epoch, with any number of ranks.
    struct State {
        std::uint64_t seed = 0;
        std::uint64_t epoch = 0;
        /// Samples that the whole job, all ranks together, has used of this epoch.
        std::uint64_t consumed = 0;
    };

    /// Throws UsageError unless 0 <= rank < world_size, or for shares as in `set_shares`.
    DistributedSampler(
        std::uint64_t sample_count, int world_size, int rank, const Options& options);
    DistributedSampler(std::uint64_t sample_count, int world_size, int rank);

    /// Begins an epoch: nothing of it is consumed.
    void set_epoch(std::uint64_t epoch);

    /// Other shares from the next step on: `indices` and `size` begin there. Throws UsageError
    /// unless they are none, or one for each rank, each at least 1 and together below 2^32.
    void set_shares(std::vector<std::uint64_t> shares);

    /// How many samples of this epoch are left for this rank: without shares the same number on
    /// every rank.
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
    struct Steps {
        std::uint64_t whole;        ///< how many steps all ranks take their shares in
        std::uint64_t before;       ///< the shares of the ranks before this one
        std::uint64_t last_before;  ///< the same in the step with the rest
        std::uint64_t last;         ///< this rank's samples in that step
    };
    std::uint64_t remaining() const;
    Steps steps() const;
    std::vector<std::uint64_t> shared_out(const std::vector<std::uint64_t>& order) const;

    std::uint64_t sample_count_;
    std::uint64_t world_size_;
    std::uint64_t rank_;
    bool shuffle_;
    bool drop_last_;
    std::vector<std::uint64_t> shares_;
    std::uint64_t samples_per_step_ = 0;
    State state_;
};

/// The samples of each rank in a step of `samples_per_step`, in proportion to speeds that were
/// measured: samples per second, without the time in which a rank waits for others. Each rank gets
/// at least 1; what the proportions leave over goes where the step gets least longer. Equal speeds
/// give equal shares, as far as they can be. All ranks pass the same list
/// (all_gather). Throws UsageError unless every speed is finite and above 0, and there is a sample
/// for each rank.
std::vector<std::uint64_t> shares_by_speed(
    const std::vector<double>& samples_per_second, std::uint64_t samples_per_step);

}  // namespace ddprun
