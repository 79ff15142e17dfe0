// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "ddprun/model_memory.hpp"
#include "ddprun/optimizers.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/sharded_checkpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// Data-parallel training in which each rank keeps and updates 1 / world of the optimizer's state
/// (ZeRO-1). Parameters and gradients are whole on every rank.
///
///   broadcast_parameters(), or load_newest
///   for each step:  zero_gradients(); forward, calling await_parameter(i) before the first use of
///                   each parameter; backward, calling mark_ready(i) as each grad(i) is complete;
///                   step(rate)
///
/// Each bucket of gradients is reduced and scattered while backward continues, as in a `Reducer`: a
/// rank gets the average of the part that it owns. `step` waits for that, updates this rank's
/// parts, and launches the exchange of the new parameters, beginning with the model's first. The
/// exchange continues during the next forward pass. Parameters have the same bits as with a
/// `Reducer` and the updates of `optimizers.hpp` on each rank, for the same number of ranks, bucket
/// limits and gradients, clipped or not.
///
/// All calls come from one thread. No other call is made on the group between the first mark_ready
/// of a step and its `step`; a later call is performed after the exchange of the parameters. After
/// an error of the group every later call that would use gradients or parameters throws the same
/// error.
///
/// Gradients add up until they are zeroed, so a program that makes several backward passes per step
/// marks only in the last one. A parameter that a rank did not use must be marked too; its gradient
/// is zero.
///
/// On an nccl group the constructor throws UsageError: there are no kernels yet that update
/// parameters on a GPU. The calls are meant to be the same there.
class ShardedOptimizer {
public:
    struct Options {
        std::variant<AdamW, Sgd> optimizer = AdamW{};
        /// float32 or bfloat16. With bfloat16, parameters are stored and sent as bfloat16; the
        /// owner of each also keeps a float (its master), which is updated and saved. Gradients are
        /// floats.
        ElementType parameter_type = ElementType::float32;
        /// Whether AdamW's decay applies to a parameter; null: to all. Called once for each
        /// parameter, in the constructor.
        std::function<bool(const ParameterSpec&)> decays;
        /// As in `Reducer::Options`.
        std::size_t first_bucket_bytes = std::size_t{1} << 20;
        std::size_t bucket_bytes = std::size_t{25} << 20;
    };

    /// Every rank calls it with the same parameters and options; Mismatch names the first parameter
    /// and rank that differ. Parameters, gradients and state are zero.
    ShardedOptimizer(
        ProcessGroup group, std::vector<ParameterSpec> parameters, const Options& options);

    ShardedOptimizer(ShardedOptimizer&&) noexcept;
    ShardedOptimizer& operator=(ShardedOptimizer&&) noexcept;
    ShardedOptimizer(const ShardedOptimizer&) = delete;
    ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;
    ~ShardedOptimizer();

    std::size_t parameter_count() const;
    const ParameterSpec& spec(std::size_t parameter) const;
    const ProcessGroup& group() const;

    /// Views into the flat memory, valid as long as the optimizer exists; aligned to 64 bytes, or
    /// 32 as bfloat16. The function for the type that the parameters do not have throws UsageError.
    /// The memory belongs to the optimizer from `step` to `await_parameter`.
    float* param(std::size_t parameter) const;
    BFloat16* param_bfloat16(std::size_t parameter) const;
    /// Must not be touched between mark_ready(i) and `step`. After `clip_gradients` or `step` it
    /// has the average where this rank owns the element, and this rank's gradient elsewhere.
    float* grad(std::size_t parameter) const;

    /// Every rank gets the parameters of `root`. This call, or a `load_newest` that finds a
    /// checkpoint, must come before the first step.
    void broadcast_parameters(int root = 0);

    void zero_gradients();

    /// grad(parameter) is complete on this rank; launches its bucket as `Reducer::mark_ready` does.
    /// A second call for the parameter in a step throws UsageError.
    void mark_ready(std::size_t parameter);

    /// A collective, called after all parameters are marked and before `step`: scales the gradients
    /// so that their global norm (L2, over all parameters) is at most `max_norm`. Returns the norm
    /// before scaling.
    float clip_gradients(float max_norm);

    /// Waits until the gradients are averaged, updates the elements that this rank owns, and
    /// launches the exchange of the parameters. Never updates with gradients of a reduction that
    /// failed. Throws UsageError, with their names, for parameters that were not marked.
    void step(float rate);
    /// How many steps were made, over all restarts.
    std::uint64_t committed_steps() const;

    /// Waits until the parameter has the values of the last step.
    void await_parameter(std::size_t parameter);
    void await_parameters();

    /// Bytes of this rank's state: averages of the optimizer, and masters.
    std::size_t state_bytes() const;

    /// A collective: see `ShardedFolder::save`. Only rank 0's `checkpoint` is used: it has the
    /// round (`CheckpointRound::write_to`), the step and the program's other values. Each rank
    /// saves its parameters and state in addition. Does not copy the values. No part of the state
    /// is in a file twice.
    std::string save(const ShardedFolder& folder, Checkpoint checkpoint);
    /// A collective: see `ShardedFolder::load_newest`. The checkpoint may have been written by any
    /// number of ranks, and with buckets of any size. Every rank gets the checkpoint that rank 0
    /// passed to `save`.
    std::optional<Checkpoint> load_newest(
        const ShardedFolder& folder, std::vector<std::string>* passed_over = nullptr);

private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace ddprun
