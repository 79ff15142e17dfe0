// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <ddprun/reducer.hpp>
#include <memory>
#include <vector>

namespace ddprun::torch {

/// The names and defaults of PyTorch's DistributedDataParallel.
struct DdpOptions {
    std::size_t first_bucket_bytes = std::size_t{1} << 20;
    std::size_t bucket_bytes = std::size_t{25} << 20;
    /// All ranks copy the buffers of rank 0 before each forward pass whose gradients are reduced.
    bool broadcast_buffers = true;
    /// Parameters may have no gradient in a step, and different ones on each rank.
    bool find_unused_parameters = false;
    CommunicationHook hook;
};

/// Averages the gradients of a module over the ranks during `backward`, which returns when all are
/// averaged.
///
/// Each gradient is a view into the memory of a Reducer. A hook on the parameter's accumulator
/// notifies the Reducer when the gradient is complete. `zero_grad` may zero the gradient or drop
/// it. Parameters must be dense floats on the CPU. One thread.
class GradientAverager {
public:
    /// A collective. All ranks pass the same module; afterwards each has the parameters and buffers
    /// of rank 0.
    GradientAverager(
        std::shared_ptr<::torch::nn::Module> module, ProcessGroup group, const DdpOptions& options);
    ~GradientAverager();
    GradientAverager(const GradientAverager&) = delete;
    GradientAverager& operator=(const GradientAverager&) = delete;

    void before_forward();
    Reducer& reducer() { return *reducer_; }

private:
    struct Parameter {
        at::Tensor tensor;
        /// Torch has only a weak reference to it, and it owns the hook.
        decltype(::torch::autograd::impl::grad_accumulator(at::Tensor())) accumulator;
        std::uintptr_t hook = 0;
        bool has_gradient = false;  // in this backward pass
    };

    void watch(std::size_t parameter);
    void gradient_is_complete(std::size_t parameter);
    void backward_is_over();
    void adopt(std::size_t parameter);
    void mark_unused();
    at::Tensor view(std::size_t parameter) const;

    std::shared_ptr<::torch::nn::Module> module_;
    DdpOptions options_;
    std::vector<Parameter> parameters_;
    std::shared_ptr<Reducer> reducer_;  // the views hold it as well
    bool is_end_queued_ = false;
};

}  // namespace ddprun::torch
