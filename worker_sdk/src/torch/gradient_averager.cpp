// SPDX-License-Identifier: Apache-2.0
#include "ddprun/torch/gradient_averager.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <ddprun/error.hpp>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>

namespace ddprun::torch {

namespace {

namespace autograd = ::torch::autograd;

ElementType type_of(const std::string& name, const at::Tensor& tensor) {
    static const std::map<at::ScalarType, ElementType> types{
        {at::kFloat, ElementType::float32},
        {at::kDouble, ElementType::float64},
        {at::kHalf, ElementType::float16},
        {at::kBFloat16, ElementType::bfloat16},
        {at::kInt, ElementType::int32},
        {at::kLong, ElementType::int64},
        {at::kByte, ElementType::uint8},
        {at::kBool, ElementType::uint8}};
    const auto found = types.find(tensor.scalar_type());
    if (found == types.end()) throw UsageError(name + " has a type that cannot be sent");
    return found->second;
}

void check(const std::string& name, const at::Tensor& tensor) {
    if (!tensor.device().is_cpu()) throw UsageError(name + " is not on the CPU");
    if (!tensor.is_non_overlapping_and_dense())
        throw UsageError(name + " does not lie in one piece of memory");
}

struct Model {
    std::vector<ParameterSpec> specs;
    std::vector<at::Tensor> parameters;
    Placement placement;
};

/// A parameter that several modules share is listed once.
Model model_of(const ::torch::nn::Module& module) {
    Model model;
    std::unordered_set<const void*> seen;
    for (const auto& item : module.named_parameters()) {
        const auto& tensor = item.value();
        if (!tensor.requires_grad() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
        check(item.key(), tensor);
        if (tensor.scalar_type() != at::kFloat)
            throw UsageError("parameter " + item.key() + " is not of type float");
        model.specs.push_back({item.key(), static_cast<std::size_t>(tensor.numel())});
        model.parameters.push_back(tensor);
        model.placement.parameters.push_back(tensor.data_ptr<float>());
    }
    for (const auto& item : module.named_buffers()) {
        const auto& tensor = item.value();
        if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
        check(item.key(), tensor);
        model.placement.buffers.push_back(
            {item.key(),
             tensor.data_ptr(),
             static_cast<std::size_t>(tensor.numel()),
             type_of(item.key(), tensor)});
    }
    return model;
}

Reducer::Options reducer_options(const DdpOptions& options) {
    Reducer::Options result;
    result.first_bucket_bytes = options.first_bucket_bytes;
    result.bucket_bytes = options.bucket_bytes;
    result.find_unused = options.find_unused_parameters;
    // As in PyTorch: gradients can be laid out in backward order only if that order is complete.
    result.reorder = !options.find_unused_parameters;
    result.hook = options.hook;
    return result;
}

}  // namespace

GradientAverager::GradientAverager(
    std::shared_ptr<::torch::nn::Module> module, ProcessGroup group, const DdpOptions& options)
    : module_(std::move(module)),
      options_(options) {
    auto model = model_of(*module_);
    for (auto& tensor : model.parameters)
        parameters_.push_back({std::move(tensor), nullptr, 0, false});
    reducer_ = std::make_shared<Reducer>(
        std::move(group), std::move(model.specs), reducer_options(options_), model.placement);
    reducer_->broadcast_parameters();
    for (std::size_t i = 0; i < parameters_.size(); ++i)
        watch(i);
}

GradientAverager::~GradientAverager() {
    for (auto& parameter : parameters_)
        if (parameter.accumulator) parameter.accumulator->del_post_hook(parameter.hook);
}

void GradientAverager::before_forward() {
    const bool will_be_reduced = at::GradMode::is_enabled() && !reducer_->is_no_sync();
    if (options_.broadcast_buffers && will_be_reduced) reducer_->broadcast_buffers();
}

void GradientAverager::watch(std::size_t index) {
    auto& parameter = parameters_[index];
    parameter.accumulator = autograd::impl::grad_accumulator(parameter.tensor);
    parameter.hook =
        parameter.accumulator->add_post_hook(std::make_unique<autograd::utils::LambdaPostHook>(
            [this, index](const autograd::variable_list& outputs, const autograd::variable_list&) {
                gradient_is_complete(index);
                return outputs;
            }));
}

void GradientAverager::gradient_is_complete(std::size_t index) {
    if (!std::exchange(is_end_queued_, true))
        autograd::Engine::get_default_engine().queue_callback([this] { backward_is_over(); });
    adopt(index);
    parameters_[index].has_gradient = true;
    reducer_->mark_ready(index);
}

void GradientAverager::backward_is_over() {
    is_end_queued_ = false;
    const bool is_no_sync = reducer_->is_no_sync();
    if (options_.find_unused_parameters) mark_unused();
    const bool have_moved = reducer_->finish();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        auto& parameter = parameters_[i];
        const bool has_gradient = std::exchange(parameter.has_gradient, false);
        // Another rank used the parameter, so there is a gradient; an unused parameter is left as
        // it was.
        const bool is_from_others = !is_no_sync && !has_gradient && reducer_->is_used(i);
        if (have_moved || is_from_others) parameter.tensor.mutable_grad() = view(i);
    }
}

/// When autograd has made a new gradient, the view replaces it.
void GradientAverager::adopt(std::size_t index) {
    auto& gradient = parameters_[index].tensor.mutable_grad();
    if (gradient.data_ptr() == reducer_->grad(index)) return;
    const at::NoGradGuard no_grad;
    auto place = view(index);
    place.copy_(gradient);
    gradient = std::move(place);
}

void GradientAverager::mark_unused() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        auto& parameter = parameters_[i];
        if (parameter.has_gradient) continue;
        if (parameter.tensor.grad().defined())
            adopt(i);
        else
            view(i).zero_();
        reducer_->mark_unused(i);
    }
}

at::Tensor GradientAverager::view(std::size_t index) const {
    const auto& tensor = parameters_[index].tensor;
    return at::from_blob(
        reducer_->grad(index),
        tensor.sizes(),
        tensor.strides(),
        [owner = reducer_](void*) {},
        tensor.options().requires_grad(false));
}

}  // namespace ddprun::torch
