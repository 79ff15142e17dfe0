// SPDX-License-Identifier: Apache-2.0
#include "ddprun/sharded_optimizer.hpp"

#include "rendezvous/base/text.hpp"
#include "worker_sdk/src/reduce/agreement.hpp"
#include "worker_sdk/src/reduce/norm.hpp"
#include "worker_sdk/src/reduce/shard_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <utility>

namespace ddprun {

namespace {

constexpr const char* steps_key = "ddprun.optimizer_steps";

/// The names in checkpoints of what an optimizer keeps for each element.
std::vector<std::string> moments_of(const ShardedOptimizer::Options& options) {
    if (std::holds_alternative<AdamW>(options.optimizer)) return {"first", "second"};
    return {"momentum"};
}

std::vector<bool> decaying(
    const std::vector<ParameterSpec>& parameters, const ShardedOptimizer::Options& options) {
    std::vector<bool> decays;
    for (const auto& parameter : parameters)
        decays.push_back(!options.decays || options.decays(parameter));
    return decays;
}

std::string text_of(const Sgd& sgd) {
    char text[64];
    std::snprintf(text, sizeof text, "SGD with momentum %.9g", static_cast<double>(sgd.momentum));
    return text;
}

std::string text_of(const AdamW& adam_w) {
    char text[128];
    std::snprintf(
        text,
        sizeof text,
        "AdamW with rates %.9g and %.9g, epsilon %.9g, decay %.9g",
        static_cast<double>(adam_w.first_rate),
        static_cast<double>(adam_w.second_rate),
        static_cast<double>(adam_w.epsilon),
        static_cast<double>(adam_w.decay));
    return text;
}

/// The options that ranks compare, except those of buckets.
std::string options_text(
    const std::vector<ParameterSpec>& parameters, const ShardedOptimizer::Options& options) {
    auto text = ", " + std::visit([](const auto& one) { return text_of(one); }, options.optimizer);
    if (options.parameter_type == ElementType::bfloat16) text += ", bfloat16 parameters";
    const auto decays = decaying(parameters, options);
    text += ", decay of " + std::to_string(std::count(decays.begin(), decays.end(), true)) +
            " parameters";
    return text;
}

Reducer::Options bucket_limits(const ShardedOptimizer::Options& options) {
    Reducer::Options limits;
    limits.first_bucket_bytes = options.first_bucket_bytes;
    limits.bucket_bytes = options.bucket_bytes;
    return limits;
}

void require_usable(const ProcessGroup& group, const ShardedOptimizer::Options& options) {
    if (group.device() >= 0)
        throw UsageError(
            "ShardedOptimizer: the group is on GPUs, and there are no kernels yet that update "
            "parameters there: use a group of the cpu backend, or a Reducer");
    const auto type = options.parameter_type;
    if (type != ElementType::float32 && type != ElementType::bfloat16)
        throw UsageError("ShardedOptimizer: parameters are float32 or bfloat16");
}

}  // namespace

class ShardedOptimizer::State {
public:
    State(ProcessGroup group, std::vector<ParameterSpec> parameters, const Options& options);

    const ProcessGroup& group() const { return group_; }
    const std::vector<ParameterSpec>& parameters() const { return parameters_; }
    std::uint64_t committed_steps() const { return committed_steps_; }
    std::size_t state_bytes() const { return state_.size() * sizeof(float); }

    float* param(std::size_t parameter) const;
    BFloat16* param_bfloat16(std::size_t parameter) const;
    float* grad(std::size_t parameter) const;
    void broadcast_parameters(int root);
    void zero_gradients();
    void mark_ready(std::size_t parameter);
    float clip_gradients(float max_norm);
    void step(float rate);
    void await_parameter(std::size_t parameter);
    void await_parameters();
    std::string save(const ShardedFolder& folder, Checkpoint checkpoint);
    std::optional<Checkpoint> load_newest(
        const ShardedFolder& folder, std::vector<std::string>* passed_over);

    void check_index(std::size_t parameter) const;

private:
    /// The state of this step's gradients.
    enum class Gradients { incomplete, reduced };

    template <class Body>
    auto guarded(Body body);
    void require_alive() const;
    void require_nothing_in_flight(const char* call) const;

    void reduce_scatter(std::size_t bucket);
    void finish();
    void update(const reduce::Piece& piece, float rate);
    void exchange(std::size_t bucket);
    void await_bucket(std::size_t bucket);
    void narrow_from_master(const reduce::Piece& piece);
    void masters_from_parameters();
    std::vector<TensorPart> tensor_parts();

    bool is_narrow() const { return options_.parameter_type == ElementType::bfloat16; }
    std::size_t parameter_bytes() const { return is_narrow() ? sizeof(BFloat16) : sizeof(float); }
    /// The elements in flat memory from this offset on.
    std::byte* parameters_at(std::size_t offset) const {
        return static_cast<std::byte*>(parameter_memory_.data()) + offset * parameter_bytes();
    }
    float* wide_at(std::size_t offset) const {
        return reinterpret_cast<float*>(parameters_at(offset));
    }
    BFloat16* narrow_at(std::size_t offset) const {
        return reinterpret_cast<BFloat16*>(parameters_at(offset));
    }
    float* gradients_at(std::size_t offset) const {
        return static_cast<float*>(gradient_memory_.data()) + offset;
    }
    /// The n-th value that is kept for each owned element, from this place of the shard on. The
    /// masters follow the values of the optimizer.
    float* kept_at(std::size_t n, std::size_t place) {
        return state_.data() + n * plan_.element_count + place;
    }
    std::size_t masters() const { return moments_.size(); }
    /// The values that an update changes.
    float* values_of(const reduce::Piece& piece) {
        return is_narrow() ? kept_at(masters(), piece.place) : wide_at(piece.offset);
    }

    ProcessGroup group_;
    std::vector<ParameterSpec> parameters_;
    Options options_;
    std::vector<bool> decays_;
    std::vector<std::string> moments_;
    reduce::ShardPlan plan_;
    reduce::ReadyTracker tracker_;
    Memory parameter_memory_;
    Memory gradient_memory_;
    std::vector<float> state_;
    bool has_values_ = false;
    Gradients gradients_ = Gradients::incomplete;
    std::uint64_t committed_steps_ = 0;
    std::exception_ptr failure_;
    // Last: they wait for the users of the memory.
    std::vector<Work> scatters_;                // of this step, in the order of buckets
    std::vector<std::optional<Work>> gathers_;  // by bucket: not yet waited for
};

ShardedOptimizer::State::State(
    ProcessGroup group, std::vector<ParameterSpec> parameters, const Options& options)
    : group_(std::move(group)),
      parameters_(std::move(parameters)),
      options_(options),
      decays_(decaying(parameters_, options)),
      moments_(moments_of(options)),
      plan_(reduce::plan_shards(
          parameters_,
          bucket_limits(options),
          static_cast<std::size_t>(group_.rank()),
          static_cast<std::size_t>(group_.size()))),
      tracker_(plan_.flat),
      parameter_memory_(group_.allocate(plan_.flat.element_count * parameter_bytes())),
      gradient_memory_(group_.allocate(plan_.flat.element_count * sizeof(float))),
      state_((moments_.size() + (is_narrow() ? 1 : 0)) * plan_.element_count),
      gathers_(plan_.flat.buckets.size()) {}

template <class Body>
auto ShardedOptimizer::State::guarded(Body body) {
    try {
        return body();
    } catch (...) {
        failure_ = std::current_exception();
        throw;
    }
}

void ShardedOptimizer::State::require_alive() const {
    if (failure_) std::rethrow_exception(failure_);
}

void ShardedOptimizer::State::require_nothing_in_flight(const char* call) const {
    require_alive();
    if (!tracker_.order().empty() || gradients_ == Gradients::reduced)
        throw UsageError(std::string{call} + " between mark_ready and step");
}

void ShardedOptimizer::State::check_index(std::size_t parameter) const {
    if (parameter >= parameters_.size())
        throw UsageError(
            "parameter " + std::to_string(parameter) + ": there are " +
            std::to_string(parameters_.size()));
}

float* ShardedOptimizer::State::param(std::size_t parameter) const {
    check_index(parameter);
    if (is_narrow()) throw UsageError("param: the parameters are bfloat16: param_bfloat16");
    return wide_at(plan_.flat.offset_of[parameter]);
}

BFloat16* ShardedOptimizer::State::param_bfloat16(std::size_t parameter) const {
    check_index(parameter);
    if (!is_narrow()) throw UsageError("param_bfloat16: the parameters are float32: param");
    return narrow_at(plan_.flat.offset_of[parameter]);
}

float* ShardedOptimizer::State::grad(std::size_t parameter) const {
    check_index(parameter);
    return gradients_at(plan_.flat.offset_of[parameter]);
}

void ShardedOptimizer::State::broadcast_parameters(int root) {
    require_nothing_in_flight("broadcast_parameters");
    await_parameters();
    guarded([&] {
        group_
            .broadcast_raw(
                parameter_memory_.data(), plan_.flat.element_count, options_.parameter_type, root)
            .wait();
    });
    masters_from_parameters();
    has_values_ = true;
}

void ShardedOptimizer::State::masters_from_parameters() {
    if (!is_narrow()) return;
    for (const auto& part : plan_.parts)
        for (std::size_t i = 0; i < part.count; ++i)
            kept_at(masters(), part.place)[i] = static_cast<float>(narrow_at(part.offset)[i]);
}

void ShardedOptimizer::State::zero_gradients() {
    require_nothing_in_flight("zero_gradients");
    std::fill_n(gradients_at(0), plan_.flat.element_count, 0.0F);
}

void ShardedOptimizer::State::mark_ready(std::size_t parameter) {
    require_alive();
    check_index(parameter);
    if (!has_values_)
        throw UsageError("mark_ready: broadcast_parameters or load_newest comes before it");
    if (tracker_.is_marked(parameter))
        throw UsageError(
            "parameter " + parameters_[parameter].name + " is marked ready twice in one step");
    guarded([&] {
        for (const auto bucket : tracker_.mark(parameter))
            reduce_scatter(bucket);
    });
}

void ShardedOptimizer::State::reduce_scatter(std::size_t bucket) {
    if (group_.size() == 1) return;  // for one rank the values are the average
    const auto& part = plan_.parts[bucket];
    scatters_.push_back(group_.reduce_scatter(
        gradients_at(plan_.flat.buckets[bucket].offset),
        gradients_at(part.offset),
        part.count,
        Op::average));
}

/// When it returns, the gradients of the step are averaged.
void ShardedOptimizer::State::finish() {
    require_alive();
    if (gradients_ == Gradients::reduced) return;
    if (const auto missing = tracker_.missing(); !missing.empty())
        throw UsageError("step, but not marked ready: " + short_list(missing, {10}, [&](auto one) {
                             return parameters_[one].name;
                         }));
    guarded([&] {
        for (auto& work : scatters_)
            work.wait();
        scatters_.clear();
        // The memory of a parameter must not be written while it is being sent.
        await_parameters();
    });
    gradients_ = Gradients::reduced;
}

float ShardedOptimizer::State::clip_gradients(float max_norm) {
    if (!(max_norm > 0)) throw UsageError("clip_gradients needs a norm above zero");
    finish();
    double squares = 0;
    for (const auto& part : plan_.parts)  // the gaps are zero
        squares += reduce::sum_of_squares(gradients_at(part.offset), part.count);
    std::vector<double> all(static_cast<std::size_t>(group_.size()));
    guarded([&] { group_.all_gather(&squares, all.data(), 1).wait(); });
    const auto norm = static_cast<float>(std::sqrt(reduce::sum_in_order(all)));
    // Computed as in the Reducer.
    if (!(norm <= max_norm))
        for (const auto& part : plan_.parts)
            reduce::scale(gradients_at(part.offset), part.count, max_norm / (norm + 1e-6F));
    return norm;
}

void ShardedOptimizer::State::step(float rate) {
    finish();
    // Starts with the last bucket: it has the model's first parameters, which are needed first.
    for (auto bucket = plan_.flat.buckets.size(); bucket-- > 0;) {
        for (const auto parameter : plan_.flat.buckets[bucket].parameters)
            update(plan_.pieces[parameter], rate);
        guarded([&] { exchange(bucket); });
    }
    ++committed_steps_;
    tracker_.reset();
    gradients_ = Gradients::incomplete;
}

void ShardedOptimizer::State::update(const reduce::Piece& piece, float rate) {
    auto* const values = values_of(piece);
    const auto* const gradients = gradients_at(piece.offset);
    if (const auto* adam_w = std::get_if<AdamW>(&options_.optimizer))
        step_adam_w(
            *adam_w,
            {rate, static_cast<std::int64_t>(committed_steps_) + 1, decays_[piece.parameter]},
            values,
            kept_at(0, piece.place),
            kept_at(1, piece.place),
            gradients,
            piece.count);
    else
        step_sgd(
            std::get<Sgd>(options_.optimizer),
            rate,
            values,
            kept_at(0, piece.place),
            gradients,
            piece.count);
    narrow_from_master(piece);
}

void ShardedOptimizer::State::narrow_from_master(const reduce::Piece& piece) {
    if (!is_narrow()) return;
    const auto* const master = values_of(piece);
    auto* const narrow = narrow_at(piece.offset);
    for (std::size_t i = 0; i < piece.count; ++i)
        narrow[i] = BFloat16(master[i]);
}

/// Launches the exchange of the parts of the bucket that the ranks own.
void ShardedOptimizer::State::exchange(std::size_t bucket) {
    if (group_.size() == 1) return;
    const auto& part = plan_.parts[bucket];
    gathers_[bucket].emplace(group_.all_gather_raw(
        parameters_at(part.offset),
        parameters_at(plan_.flat.buckets[bucket].offset),
        part.count,
        options_.parameter_type));
}

void ShardedOptimizer::State::await_bucket(std::size_t bucket) {
    if (!gathers_[bucket]) return;
    guarded([&] { gathers_[bucket]->wait(); });
    gathers_[bucket].reset();
}

void ShardedOptimizer::State::await_parameter(std::size_t parameter) {
    require_alive();
    check_index(parameter);
    await_bucket(plan_.flat.bucket_of[parameter]);
}

void ShardedOptimizer::State::await_parameters() {
    require_alive();
    for (auto bucket = gathers_.size(); bucket-- > 0;)
        await_bucket(bucket);
}

/// The parts that this rank holds; the order of tensors is the same on every rank.
std::vector<TensorPart> ShardedOptimizer::State::tensor_parts() {
    std::vector<TensorPart> all;
    for (const auto& piece : plan_.pieces) {
        const auto& [name, count] = parameters_[piece.parameter];
        const auto add = [&, count = count](const std::string& tensor, float* values) {
            all.push_back({tensor, ElementType::float32, count, piece.begin, piece.count, values});
        };
        add(name, values_of(piece));
        for (std::size_t n = 0; n < moments_.size(); ++n)
            add(moments_[n] + "/" + name, kept_at(n, piece.place));
    }
    return all;
}

std::string ShardedOptimizer::State::save(const ShardedFolder& folder, Checkpoint checkpoint) {
    require_nothing_in_flight("save");
    await_parameters();  // not for the values: a dead peer must be noticed before the save
    checkpoint.add(steps_key, static_cast<std::int64_t>(committed_steps_));
    return folder.save(group_, checkpoint, tensor_parts());
}

std::optional<Checkpoint> ShardedOptimizer::State::load_newest(
    const ShardedFolder& folder, std::vector<std::string>* passed_over) {
    require_nothing_in_flight("load_newest");
    await_parameters();
    // An error may leave only some of the values written.
    const bool had_values = std::exchange(has_values_, false);
    auto found = folder.load_newest(group_, tensor_parts(), passed_over);
    if (found) {
        committed_steps_ = static_cast<std::uint64_t>(found->integer(steps_key));
        // Added by `save`, which would add it twice if the caller saves this checkpoint again.
        std::erase_if(
            found->tensors, [](const Tensor& tensor) { return tensor.name == steps_key; });
        for (const auto& piece : plan_.pieces)
            narrow_from_master(piece);
        for (std::size_t bucket = 0; bucket < gathers_.size(); ++bucket)
            exchange(bucket);
        await_parameters();
    }
    has_values_ = had_values || found;
    return found;
}

ShardedOptimizer::ShardedOptimizer(
    ProcessGroup group, std::vector<ParameterSpec> parameters, const Options& options) {
    require_usable(group, options);
    // Before the checks: if only one rank refused, the others would wait for it.
    reduce::require_same_model(
        group, parameters, bucket_limits(options), Placement{}, options_text(parameters, options));
    reduce::check_specs(parameters);
    state_ = std::make_unique<State>(std::move(group), std::move(parameters), options);
}

ShardedOptimizer::ShardedOptimizer(ShardedOptimizer&&) noexcept = default;
ShardedOptimizer& ShardedOptimizer::operator=(ShardedOptimizer&&) noexcept = default;
ShardedOptimizer::~ShardedOptimizer() = default;

std::size_t ShardedOptimizer::parameter_count() const {
    return state_->parameters().size();
}

const ParameterSpec& ShardedOptimizer::spec(std::size_t parameter) const {
    state_->check_index(parameter);
    return state_->parameters()[parameter];
}

const ProcessGroup& ShardedOptimizer::group() const {
    return state_->group();
}

float* ShardedOptimizer::param(std::size_t parameter) const {
    return state_->param(parameter);
}

BFloat16* ShardedOptimizer::param_bfloat16(std::size_t parameter) const {
    return state_->param_bfloat16(parameter);
}

float* ShardedOptimizer::grad(std::size_t parameter) const {
    return state_->grad(parameter);
}

void ShardedOptimizer::broadcast_parameters(int root) {
    state_->broadcast_parameters(root);
}

void ShardedOptimizer::zero_gradients() {
    state_->zero_gradients();
}

void ShardedOptimizer::mark_ready(std::size_t parameter) {
    state_->mark_ready(parameter);
}

float ShardedOptimizer::clip_gradients(float max_norm) {
    return state_->clip_gradients(max_norm);
}

void ShardedOptimizer::step(float rate) {
    state_->step(rate);
}

std::uint64_t ShardedOptimizer::committed_steps() const {
    return state_->committed_steps();
}

void ShardedOptimizer::await_parameter(std::size_t parameter) {
    state_->await_parameter(parameter);
}

void ShardedOptimizer::await_parameters() {
    state_->await_parameters();
}

std::size_t ShardedOptimizer::state_bytes() const {
    return state_->state_bytes();
}

std::string ShardedOptimizer::save(const ShardedFolder& folder, Checkpoint checkpoint) {
    return state_->save(folder, std::move(checkpoint));
}

std::optional<Checkpoint> ShardedOptimizer::load_newest(
    const ShardedFolder& folder, std::vector<std::string>* passed_over) {
    return state_->load_newest(folder, passed_over);
}

}  // namespace ddprun
