// SPDX-License-Identifier: Apache-2.0
#include "ddprun/reducer.hpp"

#include "worker_sdk/src/reduce/agreement.hpp"
#include "worker_sdk/src/reduce/bucket_plan.hpp"
#include "worker_sdk/src/reduce/ready_tracker.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
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

}  // namespace

class Reducer::State {
public:
    State(ProcessGroup group, std::vector<ParameterSpec> parameters, const Options& options)
        : group_(std::move(group)),
          parameters_(std::move(parameters)),
          plan_(reduce::plan_buckets(parameters_, options)),
          tracker_(plan_),
          parameter_memory_(group_.allocate(plan_.element_count * sizeof(float))),
          gradient_memory_(group_.allocate(plan_.element_count * sizeof(float))) {}

    const ProcessGroup& group() const { return group_; }
    const std::vector<ParameterSpec>& parameters() const { return parameters_; }
    std::shared_ptr<int> guards() const { return guards_; }

    float* param(std::size_t parameter) const { return all_parameters() + offset(parameter); }
    float* grad(std::size_t parameter) const { return all_gradients() + offset(parameter); }

    void zero_gradients() {
        require_nothing_in_flight("zero_gradients");
        std::fill_n(all_gradients(), plan_.element_count, 0.0F);
    }

    void broadcast_parameters(int root) {
        group_.broadcast(all_parameters(), plan_.element_count, root).wait();
    }

    void verify_parameters() {
        std::vector<std::int64_t> mine;
        for (std::size_t i = 0; i < parameters_.size(); ++i)
            mine.push_back(reduce::fingerprint(param(i), parameters_[i].count * sizeof(float)));
        std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(group_.size()));
        group_.all_gather(mine.data(), all.data(), mine.size()).wait();

        for (std::size_t i = 0; i < parameters_.size(); ++i)
            for (int rank = 1; rank < group_.size(); ++rank)
                if (all[static_cast<std::size_t>(rank) * mine.size() + i] != all[i])
                    throw Mismatch(
                        "parameter " + parameters_[i].name + " on rank " + std::to_string(rank) +
                        " differs from rank 0's");
    }

    void mark_ready(std::size_t parameter) {
        check_index(parameter);
        if (tracker_.is_marked(parameter))
            throw UsageError(
                "parameter " + parameters_[parameter].name + " is marked ready twice in one step");
        const bool is_quiet = *guards_ > 0;
        if (step_is_quiet_ && *step_is_quiet_ != is_quiet)
            throw UsageError("a no_sync guard begins or ends between mark_ready and finish");
        step_is_quiet_ = is_quiet;
        for (const auto bucket : tracker_.mark(parameter))
            if (!is_quiet) launch(plan_.buckets[bucket]);
    }

    void finish() {
        if (const auto missing = tracker_.missing(); !missing.empty())
            throw UsageError("finish, but not marked ready: " + names_of(missing));
        tracker_.reset();
        step_is_quiet_.reset();
        // On an error the rest waits in its destructors: their memory is in use until each has
        // ended.
        auto launched = std::exchange(in_flight_, {});
        for (auto& work : launched)
            work.wait();
    }

    void check_index(std::size_t parameter) const {
        if (parameter >= parameters_.size())
            throw UsageError(
                "parameter " + std::to_string(parameter) + ": there are " +
                std::to_string(parameters_.size()));
    }

private:
    float* all_parameters() const { return static_cast<float*>(parameter_memory_.data()); }
    float* all_gradients() const { return static_cast<float*>(gradient_memory_.data()); }

    std::size_t offset(std::size_t parameter) const {
        check_index(parameter);
        return plan_.offset_of[parameter];
    }

    void launch(const reduce::Bucket& bucket) {
        in_flight_.push_back(
            group_.all_reduce(all_gradients() + bucket.offset, bucket.count, Op::average));
    }

    void require_nothing_in_flight(const char* call) const {
        if (!in_flight_.empty())
            throw UsageError(std::string{call} + " between mark_ready and finish");
    }

    std::string names_of(const std::vector<std::size_t>& indices) const {
        constexpr std::size_t most = 10;
        std::string names;
        for (std::size_t i = 0; i < std::min(indices.size(), most); ++i)
            names += (i > 0 ? ", " : "") + parameters_[indices[i]].name;
        if (indices.size() > most)
            names += " and " + std::to_string(indices.size() - most) + " more";
        return names;
    }

    ProcessGroup group_;
    std::vector<ParameterSpec> parameters_;
    reduce::BucketPlan plan_;
    reduce::ReadyTracker tracker_;
    std::shared_ptr<int> guards_ = std::make_shared<int>(0);
    std::optional<bool> step_is_quiet_;
    Memory parameter_memory_;
    Memory gradient_memory_;
    std::vector<Work> in_flight_;  // last: its destructors wait, the memory must still be there
};

Reducer::Reducer(
    ProcessGroup group, std::vector<ParameterSpec> parameters, const Options& options) {
    // Before the check: a rank that refuses alone would leave the others waiting for it.
    reduce::require_same_parameters(group, parameters, options);
    check_specs(parameters);
    state_ = std::make_unique<State>(std::move(group), std::move(parameters), options);
}

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

void Reducer::verify_parameters() {
    state_->verify_parameters();
}

void Reducer::mark_ready(std::size_t parameter) {
    state_->mark_ready(parameter);
}

void Reducer::finish() {
    state_->finish();
}

Reducer::NoSync Reducer::no_sync() {
    return NoSync(state_->guards());
}

Reducer::NoSync::NoSync(std::shared_ptr<int> guards) : guards_(std::move(guards)) {
    ++*guards_;
}

Reducer::NoSync::NoSync(NoSync&&) noexcept = default;

Reducer::NoSync::~NoSync() {
    if (guards_) --*guards_;
}

}  // namespace ddprun
