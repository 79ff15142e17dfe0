// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"
#include "worker_sdk/src/c/group.hpp"
#include "worker_sdk/src/reduce/host_values.hpp"
#include "worker_sdk/src/reduce/norm.hpp"
#include "worker_sdk/src/reduce/reducer_state.hpp"
#include "worker_sdk/src/reduce/shard_plan.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace ddprun {

namespace {

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

reduce::BucketPlan first_plan(
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    const Placement& placement) {
    if (placement.gradients != nullptr) return reduce::plan_packed_buckets(parameters, options);
    return reduce::plan_buckets(parameters, reduce::backward_order(parameters.size()), options);
}

}  // namespace

template <class Body>
auto Reducer::State::guarded(Body body) {
    try {
        return body();
    } catch (...) {
        failure_ = std::current_exception();
        throw;
    }
}

Reducer::State::State(
    ProcessGroup group,
    std::vector<ParameterSpec> parameters,
    const Options& options,
    Placement placement)
    : group_(std::move(group)),
      options_(options),
      plan_(first_plan(parameters, options, placement)),
      tracker_(plan_),
      memory_(group_, std::move(parameters), plan_, std::move(placement)),
      gpu_(nccl::DeviceSteps::open(group_.handle()->group)),
      used_(plan_.offset_of.size(), 0),
      used_by_any_(plan_.offset_of.size(), 1) {
    if (gpu_) prepare_gpu();
}

void Reducer::State::prepare_gpu() {
    if (plan_.element_count == 0) return;
    wire_type_ = reduce::compressed_type(options_.hook);
    auto* travels = static_cast<void*>(memory_.gradients());
    auto bytes = plan_.element_count * sizeof(float);
    if (wire_type_) {
        bytes = plan_.element_count * sizeof(BFloat16);
        wire_ = group_.allocate(bytes);
        travels = wire_.data();
    }
    if (group_.size() == 1) return;
    // The buffers must be registered with NCCL on all ranks or on none. Only the speed depends on
    // it.
    std::int32_t is_known = gpu_->register_memory(travels, bytes) ? 1 : 0;
    reduce::all_reduce_on_host(group_, &is_known, 1, Op::min);
    if (is_known == 0) gpu_->deregister_memory();
}

std::uint64_t Reducer::State::committed_steps() const {
    return gpu_ ? gpu_->committed_count() : committed_steps_;
}

const std::uint32_t* Reducer::State::commit_word() const {
    return gpu_ ? gpu_->commit_word() : nullptr;
}

float* Reducer::State::param(std::size_t parameter) const {
    check_index(parameter);
    return memory_.parameters()[parameter];
}

float* Reducer::State::grad(std::size_t parameter) const {
    check_index(parameter);
    return memory_.gradients() + plan_.offset_of[parameter];
}

void Reducer::State::zero_gradients() {
    require_nothing_in_flight("zero_gradients");
    memory_.zero_gradients(gpu_.get());
}

void Reducer::State::broadcast_parameters(int root) {
    require_nothing_in_flight("broadcast_parameters");
    synchronize();
    memory_.broadcast_parameters(group_, root);
    memory_.broadcast_buffers(group_, root);
}

void Reducer::State::broadcast_buffers(int root) {
    require_nothing_in_flight("broadcast_buffers");
    synchronize();
    memory_.broadcast_buffers(group_, root);
}

void Reducer::State::verify_parameters() {
    require_nothing_in_flight("verify_parameters");
    synchronize();
    reduce::require_same_values(group_, memory_.specs(), fingerprints());
}

std::vector<std::int64_t> Reducer::State::fingerprints() {
    std::vector<std::int64_t> all;
    std::vector<float> copy;
    for (std::size_t i = 0; i < parameters().size(); ++i) {
        const auto bytes = parameters()[i].count * sizeof(float);
        const float* values = memory_.parameters()[i];
        if (gpu_) {
            copy.resize(parameters()[i].count);
            gpu_->read(copy.data(), values, bytes);
            values = copy.data();
        }
        all.push_back(reduce::fingerprint(values, bytes));
    }
    return all;
}

void Reducer::State::mark(std::size_t parameter, bool is_used) {
    require_alive();
    check_index(parameter);
    if (tracker_.is_marked(parameter))
        throw UsageError(
            "parameter " + parameters()[parameter].name + " is marked ready twice in one step");
    const bool no_sync = is_no_sync();
    if (step_is_no_sync_ && *step_is_no_sync_ != no_sync)
        throw UsageError("a no_sync guard begins or ends between mark_ready and finish");

    if (!step_is_no_sync_ && !no_sync) require_capturable();
    guarded([&] {
        if (!step_is_no_sync_) begin_step(no_sync);
        if (is_used) used_[parameter] = 1;
        for (const auto bucket : tracker_.mark(parameter))
            if (!no_sync) launch(bucket);
    });
}

void Reducer::State::mark_rest_unused() {
    for (const auto parameter : tracker_.missing())
        mark(parameter, false);
}

bool Reducer::State::is_used(std::size_t parameter) const {
    check_index(parameter);
    return used_by_any_[parameter] != 0;
}

bool Reducer::State::finish() {
    require_alive();
    if (const auto missing = tracker_.missing(); !missing.empty())
        throw UsageError("finish, but not marked ready: " + names_of(missing));
    return guarded([&] {
        if (!step_is_no_sync_) begin_step(is_no_sync());
        if (!*std::exchange(step_is_no_sync_, std::nullopt)) return complete_step();
        tracker_.reset();
        return false;
    });
}

void Reducer::State::step(const std::function<void()>& update) {
    const bool only_adds_up = step_is_no_sync_.value_or(is_no_sync());
    finish();
    if (only_adds_up) return;
    update();
    if (gpu_)
        guarded([&] { gpu_->end(); });
    else
        ++committed_steps_;
}

void Reducer::State::replay(const std::function<void()>& launch) {
    require_nothing_in_flight("replay");
    if (!gpu_) throw UsageError("replay needs a group on GPUs");
    require_no_capture("replay");
    gpu_->replay(launch);
}

void Reducer::State::synchronize() {
    require_alive();
    if (!gpu_) return;
    require_no_capture("what waits for the GPU");
    guarded([&] { gpu_->await(); });
}

float Reducer::State::clip_gradients(float max_norm) {
    if (gpu_) require_no_capture("clip_gradients");
    const auto* norm = enqueue_clip(max_norm);
    if (!gpu_) return *norm;
    guarded([&] { gpu_->read(&norm_, norm, sizeof norm_); });
    return norm_;
}

const float* Reducer::State::enqueue_clip(float max_norm) {
    require_nothing_in_flight("clip_gradients");
    if (!(max_norm > 0)) throw UsageError("clip_gradients needs a norm above zero");
    auto* gradients = memory_.gradients();
    // The sum may include the gaps, which are zero.
    if (gpu_) {
        guarded([&] { gpu_->clip(gradients, plan_.element_count, max_norm); });
        return gpu_->norm();
    }
    // Summed in the order of a ShardedOptimizer, so that both clip by the same bits.
    norm_ = static_cast<float>(std::sqrt(
        reduce::sum_of_squares_by_rank(plan_, static_cast<std::size_t>(group_.size()), gradients)));
    // As in PyTorch, the small number keeps the result below the bound after rounding.
    if (!(norm_ <= max_norm))
        reduce::scale(gradients, plan_.element_count, max_norm / (norm_ + 1e-6F));
    return &norm_;
}

int Reducer::State::join() {
    require_nothing_in_flight("join");
    if (!options_.uneven_inputs)
        throw UsageError("join needs the option uneven_inputs, on every rank");
    synchronize();
    return guarded([&] {
        for (;;) {
            announce(-1);
            in_flight_.wait();
            if (active_rank_ < 0) break;
            shadow_step();
        }
        memory_.broadcast_parameters(group_, last_active_rank_);
        memory_.broadcast_buffers(group_, last_active_rank_);
        return last_active_rank_;
    });
}

void Reducer::State::check_index(std::size_t parameter) const {
    if (parameter >= parameters().size())
        throw UsageError(
            "parameter " + std::to_string(parameter) + ": there are " +
            std::to_string(parameters().size()));
}

void Reducer::State::begin_step(bool no_sync) {
    step_is_no_sync_ = no_sync;
    if (!no_sync && options_.uneven_inputs) announce(group_.rank());
}

/// Reports to all ranks whether some rank has a step; the result is known when the step is
/// complete.
void Reducer::State::announce(std::int64_t active_rank) {
    active_rank_ = active_rank;
    if (gpu_)
        reduce::all_reduce_on_host(group_, &active_rank_, 1, Op::max);
    else
        in_flight_.add(group_.all_reduce(&active_rank_, 1, Op::max));
}

void Reducer::State::launch(std::size_t index) {
    const auto& bucket = plan_.buckets[index];
    launches_.add(index, bucket.count);
    const GradientBucket gradients{
        index,
        memory_.gradients() + bucket.offset,
        bucket.count,
        index + 1 == plan_.buckets.size()};
    if (gpu_)
        launch_on_gpu(gradients);
    else
        in_flight_.launch(group_, options_.hook, gradients);
}

void Reducer::State::launch_on_gpu(const GradientBucket& bucket) {
    if (wire_type_) {
        auto* const wire =
            static_cast<BFloat16*>(wire_.data()) + plan_.buckets[bucket.index].offset;
        gpu_->average_as(*wire_type_, wire, bucket.data, bucket.count);
    } else if (options_.hook) {
        gpu_->await();  // the hook's calls may begin at once
        in_flight_.launch(group_, options_.hook, bucket);
    } else if (group_.size() > 1) {
        gpu_->average(bucket.data, bucket.count);
    }
}

/// Returns whether the gradients have moved.
bool Reducer::State::complete_step() {
    if (options_.find_unused) agree_on_unused();
    in_flight_.wait();
    if (gpu_) gpu_->finish();
    if (options_.uneven_inputs) last_active_rank_ = static_cast<int>(active_rank_);
    ++reduced_steps_;
    if (options_.check_order_every > 0 && reduced_steps_ % options_.check_order_every == 0)
        launches_.require_same(group_);
    const bool has_moved = options_.reorder && !is_reordered_ && reorder();
    tracker_.reset();
    return has_moved;
}

void Reducer::State::agree_on_unused() {
    used_by_any_ = std::exchange(used_, std::vector<std::uint8_t>(used_.size(), 0));
    if (gpu_)
        reduce::all_reduce_on_host(group_, used_by_any_.data(), used_by_any_.size(), Op::max);
    else
        in_flight_.add(group_.all_reduce(used_by_any_.data(), used_by_any_.size(), Op::max));
}

bool Reducer::State::reorder() {
    is_reordered_ = true;
    const auto& own = tracker_.order();
    std::vector<std::int64_t> order(own.begin(), own.end());
    reduce::broadcast_on_host(group_, order.data(), order.size(), 0);
    auto plan = reduce::plan_buckets(parameters(), {order.begin(), order.end()}, options_);
    if (plan == plan_) return false;
    memory_.move_gradients(group_, gpu_.get(), plan_, plan);
    plan_ = std::move(plan);
    tracker_ = reduce::ReadyTracker(plan_);
    return true;
}

/// Takes part in a step of the other ranks, to which this rank contributes zeros.
void Reducer::State::shadow_step() {
    memory_.zero_gradients(gpu_.get());
    for (const auto& bucket : plan_.buckets)
        for (const auto parameter : bucket.parameters)
            for (const auto complete : tracker_.mark(parameter))
                launch(complete);
    complete_step();
}

void Reducer::State::require_alive() const {
    if (failure_) std::rethrow_exception(failure_);
}

void Reducer::State::require_nothing_in_flight(const char* call) const {
    require_alive();
    if (step_is_no_sync_) throw UsageError(std::string{call} + " between mark_ready and finish");
}

void Reducer::State::require_no_capture(const char* what) const {
    if (gpu_ && gpu_->is_capturing())
        throw UsageError(std::string{what} + " cannot be captured into a CUDA graph");
}

void Reducer::State::require_capturable() const {
    if (!gpu_) return;
    if (options_.find_unused) require_no_capture("find_unused");
    if (options_.uneven_inputs) require_no_capture("uneven_inputs");
    if (options_.check_order_every > 0) require_no_capture("check_order_every");
    if (options_.hook && !wire_type_) require_no_capture("a hook other than compress_to_...");
    if (options_.reorder && !is_reordered_)
        require_no_capture("the step in which `reorder` moves the gradients");
}

std::string Reducer::State::names_of(const std::vector<std::size_t>& indices) const {
    constexpr std::size_t most = 10;
    return short_list(indices, {most}, [&](std::size_t index) { return parameters()[index].name; });
}

Reducer::Reducer(
    ProcessGroup group,
    std::vector<ParameterSpec> parameters,
    const Options& options,
    Placement placement) {
    // Before the checks: if only one rank refused, the others would wait for it.
    reduce::require_same_model(group, parameters, options, placement);
    reduce::check_specs(parameters);
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

bool Reducer::is_no_sync() const {
    return state_->is_no_sync();
}

Reducer::NoSync::NoSync(std::shared_ptr<int> guards) : guards_(std::move(guards)) {
    ++*guards_;
}

Reducer::NoSync::NoSync(NoSync&&) noexcept = default;

Reducer::NoSync::~NoSync() {
    if (guards_) --*guards_;
}

}  // namespace ddprun
