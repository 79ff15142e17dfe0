// SPDX-License-Identifier: Apache-2.0
#include "ddprun/reducer.hpp"

#include "worker_sdk/src/reduce/agreement.hpp"
#include "worker_sdk/src/reduce/reducer_state.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

void check_specs(const std::vector<ParameterSpec>& parameters) {
    std::unordered_set<std::string> names;
    std::size_t left = std::numeric_limits<std::size_t>::max() / sizeof(float) / 4;
    for (const auto& parameter : parameters) {
        if (parameter.name.empty() || parameter.name.find('\n') != std::string::npos)
            throw UsageError("a parameter needs a name of one line");
        if (!names.insert(parameter.name).second)
            throw UsageError("two parameters are named " + parameter.name);
        if (parameter.count == 0)
            throw UsageError("parameter " + parameter.name + " has no elements");
        if (parameter.count > left)
            throw UsageError("the parameters are more than memory can hold");
        left -= parameter.count;
    }
}

void check_placement(
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    const Placement& placement) {
    if (!placement.parameters.empty() && placement.parameters.size() != parameters.size())
        throw UsageError(
            "the placement has " + std::to_string(placement.parameters.size()) +
            " parameters, the model " + std::to_string(parameters.size()));
    for (std::size_t i = 0; i < placement.parameters.size(); ++i)
        if (placement.parameters[i] == nullptr)
            throw UsageError("the placement of parameter " + parameters[i].name + " is null");
    if (options.reorder && placement.gradients != nullptr)
        throw UsageError("reorder needs the gradients in the reducer's own memory");
}

}  // namespace

Reducer::Reducer(
    ProcessGroup group,
    std::vector<ParameterSpec> parameters,
    const Options& options,
    Placement placement) {
    // Before the checks: if one rank alone refused, the others would wait for it.
    reduce::require_same_model(group, parameters, options, placement);
    check_specs(parameters);
    check_placement(parameters, options, placement);
    state_ = std::make_unique<State>(
        std::move(group), std::move(parameters), options, std::move(placement));
}

Reducer::Reducer(ProcessGroup group, std::vector<ParameterSpec> parameters, const Options& options)
    : Reducer(std::move(group), std::move(parameters), options, Placement{}) {}

Reducer::Reducer(ProcessGroup group, std::vector<ParameterSpec> parameters)
    : Reducer(std::move(group), std::move(parameters), Options{}) {}

Reducer::Reducer(Reducer&&) noexcept = default;
Reducer& Reducer::operator=(Reducer&&) noexcept = default;
Reducer::~Reducer() = default;

std::size_t Reducer::parameter_count() const {
    return state_->parameters().size();
}

const ParameterSpec& Reducer::spec(std::size_t parameter) const {
    state_->check_index(parameter);
    return state_->parameters()[parameter];
}

const ProcessGroup& Reducer::group() const {
    return state_->group();
}

float* Reducer::param(std::size_t parameter) const {
    return state_->param(parameter);
}

float* Reducer::grad(std::size_t parameter) const {
    return state_->grad(parameter);
}

void Reducer::zero_gradients() {
    state_->zero_gradients();
}

void Reducer::broadcast_parameters(int root) {
    state_->broadcast_parameters(root);
}

void Reducer::broadcast_buffers(int root) {
    state_->broadcast_buffers(root);
}

void Reducer::verify_parameters() {
    state_->verify_parameters();
}

void Reducer::mark_ready(std::size_t parameter) {
    state_->mark(parameter, true);
}

void Reducer::mark_unused(std::size_t parameter) {
    state_->mark(parameter, false);
}

void Reducer::mark_rest_unused() {
    state_->mark_rest_unused();
}

bool Reducer::is_used(std::size_t parameter) const {
    return state_->is_used(parameter);
}

bool Reducer::finish() {
    return state_->finish();
}

void Reducer::step(const std::function<void()>& update) {
    state_->step(update);
}

std::uint64_t Reducer::committed_steps() const {
    return state_->committed_steps();
}

const std::uint32_t* Reducer::commit_word() const {
    return state_->commit_word();
}

void Reducer::replay(const std::function<void()>& launch) {
    state_->replay(launch);
}

void Reducer::synchronize() {
    state_->synchronize();
}

const float* Reducer::enqueue_clip(float max_norm) {
    return state_->enqueue_clip(max_norm);
}

float Reducer::clip_gradients(float max_norm) {
    return state_->clip_gradients(max_norm);
}

int Reducer::join() {
    return state_->join();
}

Reducer::NoSync Reducer::no_sync() {
    return NoSync(state_->guards());
}

bool Reducer::is_quiet() const {
    return state_->is_quiet();
}

Reducer::NoSync::NoSync(std::shared_ptr<int> guards) : guards_(std::move(guards)) {
    ++*guards_;
}

Reducer::NoSync::NoSync(NoSync&&) noexcept = default;

Reducer::NoSync::~NoSync() {
    if (guards_) --*guards_;
}

}  // namespace ddprun
