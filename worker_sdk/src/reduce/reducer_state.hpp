// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/reducer.hpp"
#include "worker_sdk/src/reduce/agreement.hpp"
#include "worker_sdk/src/reduce/bucket_plan.hpp"
#include "worker_sdk/src/reduce/flat_memory.hpp"
#include "worker_sdk/src/transports/nccl/device_steps.hpp"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::reduce {

/// The buckets of one step that were launched and not yet waited for. The destructor waits: the
/// memory is in use until each has ended.
class BucketsInFlight {
public:
    bool is_empty() const { return works_.empty() && finishes_.empty(); }

    void launch(
        const ProcessGroup& group, const CommunicationHook& hook, const GradientBucket& bucket) {
        if (hook)
            finishes_.push_back(hook(group, bucket));
        else if (group.size() > 1)  // for one rank the values are the average
            works_.push_back(group.all_reduce(bucket.data, bucket.count, Op::average));
    }

    /// Adds other work of the step.
    void add(Work work) { works_.push_back(std::move(work)); }

    /// Waits in the order of launches. Throws the first error, after all have ended.
    void wait() {
        BucketsInFlight launched = std::exchange(*this, {});
        for (const auto& finish : launched.finishes_)
            if (finish) finish();
        for (auto& work : launched.works_)
            work.wait();
    }

private:
    std::vector<Work> works_;
    std::vector<FinishBucket> finishes_;
};

/// The compressed type when the hook is one of compress_to_..., else none.
std::optional<ElementType> compressed_type(const CommunicationHook& hook);

}  // namespace ddprun::reduce

namespace ddprun {

/// The implementation of Reducer; the contracts are in its header.
class Reducer::State {
public:
    State(
        ProcessGroup group,
        std::vector<ParameterSpec> parameters,
        const Options& options,
        Placement placement);

    const ProcessGroup& group() const { return group_; }
    const std::vector<ParameterSpec>& parameters() const { return memory_.specs(); }
    std::shared_ptr<int> guards() const { return guards_; }
    bool is_no_sync() const { return *guards_ > 0; }
    std::uint64_t committed_steps() const;
    const std::uint32_t* commit_word() const;

    float* param(std::size_t parameter) const;
    float* grad(std::size_t parameter) const;
    void zero_gradients();
    void broadcast_parameters(int root);
    void broadcast_buffers(int root);
    void verify_parameters();

    void mark(std::size_t parameter, bool is_used);
    void mark_rest_unused();
    bool is_used(std::size_t parameter) const;
    bool finish();
    void step(const std::function<void()>& update);
    void replay(const std::function<void()>& launch);
    void synchronize();
    float clip_gradients(float max_norm);
    const float* enqueue_clip(float max_norm);
    int join();

    void check_index(std::size_t parameter) const;

private:
    void begin_step(bool no_sync);
    void announce(std::int64_t active_rank);
    void launch(std::size_t bucket);
    void launch_on_gpu(const GradientBucket& bucket);
    void prepare_gpu();
    std::vector<std::int64_t> fingerprints();
    bool complete_step();
    void agree_on_unused();
    bool reorder();
    void shadow_step();

    /// After a failure of the group these gradients are not used again.
    template <class Body>
    auto guarded(Body body);
    void require_alive() const;
    void require_nothing_in_flight(const char* call) const;
    void require_no_capture(const char* what) const;
    void require_capturable() const;
    std::string names_of(const std::vector<std::size_t>& indices) const;

    ProcessGroup group_;
    Options options_;
    reduce::BucketPlan plan_;
    reduce::ReadyTracker tracker_;
    reduce::FlatMemory memory_;
    /// On a GPU: the type that gradients are compressed to, if any, and its buffer.
    std::optional<ElementType> wire_type_;
    Memory wire_;
    std::unique_ptr<nccl::DeviceSteps> gpu_;  // after the memory, so that it is destroyed first
    std::shared_ptr<int> guards_ = std::make_shared<int>(0);
    /// Set between the first mark of a step and its end.
    std::optional<bool> step_is_no_sync_;
    std::vector<std::uint8_t> used_;         // on this rank, since the last reduced step
    std::vector<std::uint8_t> used_by_any_;  // in the last reduced step
    /// With uneven inputs: some rank that was active in the last step; below 0, none was.
    std::int64_t active_rank_ = 0;
    int last_active_rank_ = 0;
    bool is_reordered_ = false;
    std::uint64_t reduced_steps_ = 0;
    std::uint64_t committed_steps_ = 0;
    float norm_ = 0;
    reduce::LaunchRecord launches_;
    std::exception_ptr failure_;
    reduce::BucketsInFlight in_flight_;  // last: it waits for the users of the memory
};

}  // namespace ddprun
