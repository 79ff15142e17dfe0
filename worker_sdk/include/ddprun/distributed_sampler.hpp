// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun {

/// Which samples this rank trains on in an epoch: PyTorch's DistributedSampler, bit for bit, with a
/// resume that allows another world size.
///
/// The order of an epoch is a permutation made from seed + epoch alone, the same on every rank and
/// for every world size. Rank r of R takes its elements r, r + R, r + 2R, ... To give all ranks the
/// same number of samples, the order is padded with its first elements until R divides its length;
/// with `drop_last` it is cut instead.
///
/// Call `set_epoch` before each epoch: without it every epoch has the same order. When accuracy is
/// measured, the padding counts up to R - 1 samples twice.
///
/// Ranks of different speed: with `shares` a step takes the next sum(shares) elements of the order.
/// Rank r gets shares[r] consecutive elements, in the order of ranks. The last step of an epoch
/// divides the remaining elements in proportion to the shares. Every sample is used once, without
/// padding, even when the shares or the world size change between two steps. Each rank's gradient
/// is then the mean over its own samples: multiply it by (its samples * R / samples of the step)
/// for the mean over all. In the last step a rank may have no sample and thus one step fewer than
/// the others: use the `Reducer`'s uneven inputs and `join`, or `drop_last`.
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

    /// The state that is needed to resume in the middle of an epoch, with any number of ranks.
    struct State {
        std::uint64_t seed = 0;
        std::uint64_t epoch = 0;
        /// How many samples of this epoch the whole job, all ranks together, has used.
        std::uint64_t consumed = 0;
    };

    /// Throws UsageError unless 0 <= rank < world_size, or for shares as in `set_shares`.
    DistributedSampler(
        std::uint64_t sample_count, int world_size, int rank, const Options& options);
    DistributedSampler(std::uint64_t sample_count, int world_size, int rank);

    /// Begins an epoch: nothing of it is consumed.
    void set_epoch(std::uint64_t epoch);

    /// Sets the shares from the next step on: `indices` and `size` begin there. Throws UsageError
    /// unless the list is empty, or has one share per rank, each at least 1 and together below
    /// 2^32.
    void set_shares(std::vector<std::uint64_t> shares);

    /// How many samples of this epoch are left for this rank. Without shares all ranks have the
    /// same number.
    std::uint64_t size() const;

    /// The indices of these samples, in the order of use.
    std::vector<std::uint64_t> indices() const;

    /// Records that the job, all ranks together, has used `samples` more, the padding included.
    /// Call it when their step is committed; `indices` then begins after them.
    void advance(std::uint64_t samples) { state_.consumed += samples; }

    const State& state() const { return state_; }

    /// Continues from the state of a job of any world size. No sample is lost or used twice, except
    /// for the padding at the end of the epoch.
    void resume(const State& state) { state_ = state; }

private:
    struct Steps {
        std::uint64_t whole;        ///< the number of steps in which every rank gets its full share
        std::uint64_t before;       ///< the sum of the shares of lower ranks
        std::uint64_t last_before;  ///< the same for the last, incomplete step
        std::uint64_t last;         ///< this rank's samples in the last step
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

/// Divides a step of `samples_per_step` among the ranks in proportion to their measured speeds:
/// samples per second, without the time spent waiting for other ranks. Each rank gets at least 1;
/// samples left over by rounding go where they lengthen the step least. Equal speeds give equal
/// shares as far as possible. All ranks pass the same list (all_gather). Throws UsageError unless
/// every speed is finite and above 0, and there is a sample for each rank.
std::vector<std::uint64_t> shares_by_speed(
    const std::vector<double>& samples_per_second, std::uint64_t samples_per_step);

}  // namespace ddprun
