// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/model_memory.hpp"
#include "worker_sdk/src/reduce/bucket_plan.hpp"
#include "worker_sdk/src/transports/nccl/device_steps.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::reduce {

/// The memory of a model's parameters, gradients and buffers, the reducer's or the caller's. On a
/// GPU, operations on gradients are enqueued in `steps`; elsewhere `steps` is null.
class FlatMemory {
public:
    FlatMemory(
        const ProcessGroup& group,
        std::vector<ParameterSpec> specs,
        const BucketPlan& plan,
        Placement placement);

    const std::vector<ParameterSpec>& specs() const { return specs_; }
    const std::vector<float*>& parameters() const { return parameters_; }
    float* gradients() const { return gradients_; }

    /// Zeroes the gaps as well.
    void zero_gradients(nccl::DeviceSteps* steps);

    /// For the reducer's own memory only: moves the gradients from the layout `before` to `after`,
    /// of the same size. Waits until they are moved.
    void move_gradients(
        const ProcessGroup& group,
        nccl::DeviceSteps* steps,
        const BucketPlan& before,
        const BucketPlan& after);

    void broadcast_parameters(const ProcessGroup& group, int root) const;
    void broadcast_buffers(const ProcessGroup& group, int root) const;

private:
    std::vector<ParameterSpec> specs_;
    std::vector<BufferSpec> buffers_;
    Memory parameter_memory_;  // empty when the caller owns the parameters
    Memory gradient_memory_;
    std::vector<float*> parameters_;
    float* gradients_ = nullptr;
    std::size_t element_count_;
};

}  // namespace ddprun::reduce
