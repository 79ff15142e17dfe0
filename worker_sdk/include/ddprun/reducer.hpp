// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/communication_hook.hpp"
#include "ddprun/model_memory.hpp"
#include "ddprun/process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ddprun {

/// The data-parallel engine: keeps the parameters and gradients (float) as flat memory, and
/// averages gradients over all ranks while the backward pass is still running.
///
///   for each step:  zero_gradients(); forward; backward, calling mark_ready(i) as each grad(i) is
///                   complete; step([&] { update param(i) from grad(i) })
///
/// Gradients are reduced in buckets, in the reverse order of the parameters (the order in which
/// backward makes them), the same order on every rank. grad(i) must not be touched between
/// mark_ready(i) and finish(). All calls come from one thread; the reduction itself runs on the
/// group's thread. No other call is made on the group between the first mark_ready of a step and
/// its finish.
///
/// After an error of the group the gradients are invalid: every later call that would use them
/// throws the same error.
///
/// On an nccl group everything is in GPU memory (Placement's pointers too, and hooks get such
/// pointers), and calls only enqueue. The program's work goes into one stream, given by
/// `ProcessGroup::use_stream` (none: the legacy default stream). The reduction runs in the
/// reducer's own stream. The streams wait for each other where the program would wait. So
///
///   group.use_stream(stream);
///   for each step:  zero_gradients(); enqueue forward and backward, calling mark_ready(i) when
///                   what makes grad(i) is enqueued; step([&] { enqueue the optimizer })
///
/// An aborted collective leaves garbage in the gradients while the optimizer is already enqueued
/// behind it. Therefore each of the optimizer's kernels reads `commit_word` and does nothing when
/// it is 0. Errors are thrown by a later call, by `synchronize` at the latest. The host is at most
/// four steps ahead.
///
/// Capture. From zero_gradients to step everything may be captured into a CUDA graph (begin it with
/// the relaxed mode), for one step or several, in the same way on all ranks; `replay` launches it.
/// A step that is not captured should come first, since NCCL connects the ranks in it. In a
/// capture, calls that need the host throw UsageError: clip_gradients (not enqueue_clip),
/// find_unused, uneven_inputs, check_order_every, a hook other than compress_to_..., the step in
/// which `reorder` moves.
class Reducer {
public:
    struct Options {
        /// A bucket is closed when it reaches its limit; the first one is small, so that
        /// communication starts early.
        std::size_t first_bucket_bytes = std::size_t{1} << 20;
        std::size_t bucket_bytes = std::size_t{25} << 20;
        /// For models whose backward pass is not in the reverse order of the parameters. After the
        /// first reduced step the gradients are laid out again, in the order in which rank 0 marked
        /// them. grad(i) then has another address, and the `finish` of that step returns true.
        bool reorder = false;
        /// Ranks agree in each step on which parameters none of them used: `is_used`. Costs a small
        /// collective per step.
        bool find_unused = false;
        /// Ranks may have different numbers of steps: a rank without more steps calls `join`. Costs
        /// a small collective per step.
        bool uneven_inputs = false;
        /// For debugging: after every so many steps the ranks compare which buckets they have
        /// launched. 0: never.
        std::uint64_t check_order_every = 0;
        /// Null: buckets are averaged without one.
        CommunicationHook hook;
    };

    /// Every rank calls it with the same parameters, options and buffers; Mismatch names the first
    /// parameter and rank that differ. Parameters and gradients in the reducer's own memory start
    /// as zero.
    Reducer(
        ProcessGroup group,
        std::vector<ParameterSpec> parameters,
        const Options& options,
        Placement placement);
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

    /// Views into the flat memory, valid as long as the reducer lives (grad: see `reorder`).
    /// Aligned to 64 bytes in the reducer's own memory.
    float* param(std::size_t parameter) const;
    float* grad(std::size_t parameter) const;

    void zero_gradients();

    /// Every rank gets the parameters and buffers of `root`. Call it once before the first step.
    void broadcast_parameters(int root = 0);
    /// Like `broadcast_parameters` for the buffers alone: call it before a checkpoint or an
    /// evaluation, or every so many steps.
    void broadcast_buffers(int root = 0);

    /// Throws Mismatch, naming parameter and rank, unless all ranks hold the same bits.
    void verify_parameters();

    /// grad(parameter) is complete on this rank. Launches its bucket when this was the bucket's
    /// last missing gradient and all buckets before it are launched. A second call for the
    /// parameter in a step throws UsageError.
    void mark_ready(std::size_t parameter);

    /// This step computes no gradient for the parameter on this rank: the content of
    /// grad(parameter) (zero after `zero_gradients`) is its part of the average. Counts as marking.
    void mark_unused(std::size_t parameter);
    /// The same for all parameters that are not yet marked.
    void mark_rest_unused();

    /// With `find_unused`, after `finish`: whether any rank used the parameter in this step (and in
    /// the unreduced ones before it). An optimizer does not update a parameter that no rank used.
    /// Without `find_unused` always true.
    bool is_used(std::size_t parameter) const;

    /// Waits until every gradient is averaged (on nccl: makes the stream wait). Returns true when
    /// grad(i) has moved (`reorder`). Throws UsageError, with their names, for parameters that were
    /// not marked, and PeerLost, Timeout or Mismatch of the reduction.
    bool finish();

    /// `finish`, and then the optimizer's `update`, which is never called with gradients of a
    /// reduction that failed. Under `no_sync` it is not called. Counts the step as committed when
    /// `update` has returned.
    void step(const std::function<void()>& update);
    /// How many times `step` has called `update`. When a job is interrupted, ranks differ by one at
    /// most. On nccl it counts only the updates that the GPU has completed with a commit word
    /// (below) other than 0, including those of a captured graph.
    std::uint64_t committed_steps() const;

    /// On nccl, for the kernels that `update` enqueues: 1 when the step counts, 0 when a reduction
    /// was aborted before. The word is in GPU memory and is set once per step, in `finish`. Null on
    /// other backends, where `update` is not called after a failure.
    const std::uint32_t* commit_word() const;

    /// On nccl: calls `launch`, which launches a graph of captured steps into the group's stream,
    /// after all but a few earlier steps are done. Throws an error that occurred meanwhile; then
    /// `launch` is not called. `launch` only launches: it makes no call on this group. A graph is
    /// never launched in any other way: after an abort its communicator no longer exists. It is
    /// destroyed (cudaGraph_t and cudaGraphExec_t) before the Reducer and the last copy of its
    /// group: NCCL does not free a communicator that a graph still uses.
    void replay(const std::function<void()>& launch);

    /// On nccl: waits until the group's stream is empty; throws if an error occurred. Call it
    /// before the host reads parameters. (cudaStreamSynchronize must not be called during a
    /// reduction: an abort would wait for it.) No effect on other backends.
    void synchronize();

    /// Called between `finish` and the update: scales all gradients so that their global norm (L2,
    /// over all parameters) is at most `max_norm`. Returns the norm before scaling. Needs no
    /// communication, since all ranks hold the same gradients. Must not be called for gradients
    /// that were not reduced. On nccl it waits for the GPU.
    float clip_gradients(float max_norm);
    /// Like `clip_gradients`, but without waiting. The result points to the norm (on nccl in GPU
    /// memory), which is valid until the next clip.
    const float* enqueue_clip(float max_norm);

    /// With `uneven_inputs`: this rank has no more steps. Takes part in the steps of the other
    /// ranks, with gradients of zero (the average is still over all ranks), until all have joined.
    /// Then all have the parameters and buffers of the rank that was active last. Returns that
    /// rank; the caller broadcasts the optimizer's state (momentum) from it.
    int join();

    /// While a guard exists, mark_ready and finish only count: gradients accumulate locally, and
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
    /// Whether a guard exists.
    bool is_no_sync() const;

private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace ddprun
