// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// One parameter of a model: its name is for messages, its count is in elements.
struct ParameterSpec {
    std::string name;
    std::size_t count = 0;
};

/// The data-parallel engine: owns the parameters and gradients (float) as flat memory, and averages
/// gradients over all ranks while the backward pass is still running.
///
///   for each step:  zero_gradients(); forward; backward, calling mark_ready(i) as each grad(i) is
///                   complete; finish(); update param(i) from grad(i)
///
/// Gradients are reduced in buckets, in the reverse order of the parameters (the order in which
/// backward makes them), the same order on every rank. grad(i) must not be touched between
/// mark_ready(i) and finish(). All calls come from one thread; the reduction itself runs on the
/// group's.
class Reducer {
public:
    struct Options {
        /// A bucket is closed once it has reached its limit; the first one is small, so that
        /// communication starts early.
        std::size_t first_bucket_bytes = std::size_t{1} << 20;
        std::size_t bucket_bytes = std::size_t{25} << 20;
    };

    /// Every rank calls it with the same parameters and options; Mismatch names the first
    /// parameter and rank that differ. Parameters and gradients start as zero.
    Reducer(ProcessGroup group, std::vector<ParameterSpec> parameters, const Options& options);
    Reducer(ProcessGroup group, std::vector<ParameterSpec> parameters);

    Reducer(Reducer&&) noexcept;
    Reducer& operator=(Reducer&&) noexcept;
    Reducer(const Reducer&) = delete;
    Reducer& operator=(const Reducer&) = delete;
    ~Reducer();

    std::size_t parameter_count() const;
    const ParameterSpec& spec(std::size_t parameter) const;
    const ProcessGroup& group() const;

    /// Views into the flat memory, aligned to 64 bytes, valid as long as the reducer lives.
    float* param(std::size_t parameter) const;
    float* grad(std::size_t parameter) const;

    void zero_gradients();

    /// Everybody takes the parameters of `root`.
    void broadcast_parameters(int root = 0);

    /// Throws Mismatch, naming parameter and rank, unless all ranks hold the same bits.
    void verify_parameters();

    /// grad(parameter) is complete on this rank. Launches its bucket when that was the last one
    /// missing and all buckets before it are launched. Twice in a step: UsageError.
    void mark_ready(std::size_t parameter);

    /// Waits until every gradient is averaged. Parameters that were not marked: UsageError with
    /// their names. Throws PeerLost, Timeout or Mismatch of the reduction.
    void finish();

    /// While a guard lives, mark_ready and finish only keep account: gradients add up locally, and
    /// the next finish without a guard averages the sum over the ranks.
    class [[nodiscard]] NoSync {
    public:
        NoSync(NoSync&&) noexcept;
        NoSync& operator=(NoSync&&) = delete;
        ~NoSync();

    private:
        friend class Reducer;
        explicit NoSync(std::shared_ptr<int> guards);
        std::shared_ptr<int> guards_;
    };
    NoSync no_sync();

private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace ddprun
