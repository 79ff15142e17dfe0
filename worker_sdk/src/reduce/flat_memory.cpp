// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/flat_memory.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

Placement flat_placement(
    const std::vector<ParameterSpec>& specs, float* parameters, float* gradients) {
    Placement placement;
    placement.gradients = gradients;
    for (const auto& spec : specs) {
        placement.parameters.push_back(parameters);
        if (parameters) parameters += spec.count;  // null stays null: the Reducer refuses it
    }
    return placement;
}

}  // namespace ddprun

namespace ddprun::reduce {

FlatMemory::FlatMemory(
    const ProcessGroup& group,
    std::vector<ParameterSpec> specs,
    const BucketPlan& plan,
    Placement placement)
    : specs_(std::move(specs)),
      buffers_(std::move(placement.buffers)),
      parameters_(std::move(placement.parameters)),
      gradients_(placement.gradients),
      element_count_(plan.element_count) {
    const auto bytes = plan.element_count * sizeof(float);
    if (parameters_.empty()) {
        parameter_memory_ = group.allocate(bytes);
        for (const auto offset : plan.offset_of)
            parameters_.push_back(static_cast<float*>(parameter_memory_.data()) + offset);
    }
    if (gradients_ == nullptr) {
        gradient_memory_ = group.allocate(bytes);
        gradients_ = static_cast<float*>(gradient_memory_.data());
    }
}

void FlatMemory::zero_gradients(nccl::DeviceSteps* steps) {
    if (steps)
        steps->zero(gradients_, element_count_ * sizeof(float));
    else
        std::fill_n(gradients_, element_count_, 0.0F);
}

void FlatMemory::move_gradients(
    const ProcessGroup& group,
    nccl::DeviceSteps* steps,
    const BucketPlan& before,
    const BucketPlan& after) {
    const auto copy = [steps](float* to, const float* from, std::size_t count) {
        if (steps)
            steps->copy(to, from, count * sizeof(float));
        else
            std::copy_n(from, count, to);
    };
    const auto memory = group.allocate(element_count_ * sizeof(float));
    auto* const old = static_cast<float*>(memory.data());
    copy(old, gradients_, element_count_);
    zero_gradients(steps);
    for (std::size_t i = 0; i < specs_.size(); ++i)
        copy(gradients_ + after.offset_of[i], old + before.offset_of[i], specs_[i].count);
    if (steps) steps->await();
}

void FlatMemory::broadcast_parameters(const ProcessGroup& group, int root) const {
    if (parameter_memory_.size() > 0) {
        group.broadcast(static_cast<float*>(parameter_memory_.data()), element_count_, root).wait();
        return;
    }
    std::vector<Work> launched;
    for (std::size_t i = 0; i < specs_.size(); ++i)
        launched.push_back(group.broadcast(parameters_[i], specs_[i].count, root));
    for (auto& work : launched)
        work.wait();
}

void FlatMemory::broadcast_buffers(const ProcessGroup& group, int root) const {
    std::vector<Work> launched;
    for (const auto& buffer : buffers_)
        launched.push_back(group.broadcast_raw(buffer.data, buffer.count, buffer.type, root));
    for (auto& work : launched)
        work.wait();
}

}  // namespace ddprun::reduce
