// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/torch/gradient_averager.hpp"

#include <memory>
#include <utility>

namespace ddprun::torch {

/// PyTorch's DistributedDataParallel for C++: any module (made by TORCH_MODULE, or a shared_ptr to
/// the program's own class) is trained data-parallel, with an unchanged loop.
///
///   auto group = ddprun::ProcessGroup::create(ddprun::World::from_environment());
///   ddprun::torch::DistributedDataParallel model(Net(), group);
///   ::torch::optim::SGD optimizer(model->parameters(), 0.01);
///   for each batch:
///       optimizer.zero_grad();
///       loss(model(input), target).backward();   // on return the gradients are averaged
///       optimizer.step();
///
/// `backward` throws an error of the group (a lost peer), so the optimizer is not reached.
template <class ModulePointer>
class DistributedDataParallel {
public:
    DistributedDataParallel(
        ModulePointer module, ProcessGroup group, const DdpOptions& options = {})
        : module_(std::move(module)),
          averager_(
              std::make_unique<GradientAverager>(pointer_to(module_), std::move(group), options)) {}

    template <class... Arguments>
    auto operator()(Arguments&&... arguments) {
        averager_->before_forward();
        return module_->forward(std::forward<Arguments>(arguments)...);
    }

    auto* operator->() { return &*module_; }
    const ModulePointer& module() const { return module_; }

    /// While the result exists, gradients only accumulate on this rank.
    Reducer::NoSync no_sync() { return averager_->reducer().no_sync(); }

    /// Called after `backward`; like torch::nn::utils::clip_grad_norm_ over all parameters.
    float clip_gradients(float max_norm) { return averager_->reducer().clip_gradients(max_norm); }

    Reducer& reducer() { return averager_->reducer(); }

private:
    template <class T>
    static std::shared_ptr<::torch::nn::Module> pointer_to(const std::shared_ptr<T>& module) {
        return module;
    }
    template <class T>
    static std::shared_ptr<::torch::nn::Module> pointer_to(
        const ::torch::nn::ModuleHolder<T>& module) {
        return module.ptr();
    }

    ModulePointer module_;
    std::unique_ptr<GradientAverager> averager_;
};

}  // namespace ddprun::torch
