// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/sharded_steps.hpp"

#include "ddprun/reducer.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <variant>

namespace ddprun::tests {

namespace {

constexpr float rate = 0.05F;
constexpr std::size_t first_bucket_bytes = 256;
constexpr std::size_t bucket_bytes = 4096;

bool has_decay(const ParameterSpec& spec) {
    return spec.name.find("weight") != std::string::npos;
}

float first_value(std::size_t parameter, std::size_t i) {
    return std::sin(static_cast<float>(parameter * 1000 + i + 1));
}

float gradient_of(float value, std::size_t i, int rank, std::uint64_t number) {
    return std::sin(
        value * 3 + static_cast<float>(i) * 0.37F + static_cast<float>(rank) * 1.3F +
        static_cast<float>(number));
}

bool is_narrow(const ShardedOptimizer::Options& options) {
    return options.parameter_type == ElementType::bfloat16;
}

/// A rank's state of one parameter without sharding.
struct Whole {
    std::vector<float> master, first, second;
};

void update(
    const ShardedOptimizer::Options& options,
    const ParameterSpec& spec,
    std::uint64_t number,
    Whole& whole,
    const float* gradients) {
    if (const auto* adam_w = std::get_if<AdamW>(&options.optimizer))
        step_adam_w(
            *adam_w,
            {rate, static_cast<std::int64_t>(number) + 1, has_decay(spec)},
            whole.master.data(),
            whole.first.data(),
            whole.second.data(),
            gradients,
            spec.count);
    else
        step_sgd(
            std::get<Sgd>(options.optimizer),
            rate,
            whole.master.data(),
            whole.first.data(),
            gradients,
            spec.count);
}

float as_parameter(const ShardedOptimizer::Options& options, float master) {
    return is_narrow(options) ? static_cast<float>(BFloat16(master)) : master;
}

/// The value of a parameter of either type.
float value_at(const ShardedOptimizer& model, std::size_t parameter, std::size_t i, bool narrow) {
    return narrow ? static_cast<float>(model.param_bfloat16(parameter)[i])
                  : model.param(parameter)[i];
}

/// "VmHWM" or "VmRSS" of this process, in bytes.
std::size_t memory_in_use(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind(field + ":", 0) == 0) {
            std::istringstream number(line.substr(field.size() + 1));
            std::size_t kilobytes = 0;
            number >> kilobytes;
            return kilobytes * 1024;
        }
    return 0;
}

/// The peak of additional memory that was in use while it ran.
template <class Body>
std::size_t peak_of(const Body& body) {
    std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak to the present use
    const auto before = memory_in_use("VmRSS");
    body();
    return memory_in_use("VmHWM") - before;
}

bool has_narrow(const ShardedOptimizer& model) {
    try {
        model.param(0);
        return false;
    } catch (const UsageError&) {
        return true;
    }
}

}  // namespace

std::vector<ParameterSpec> odd_parameters() {
    return {
        {"one.weight", 1},
        {"two.weight", 1001},
        {"three.bias", 17},
        {"four.weight", 4099},
        {"five.bias", 3},
        {"six.weight", 64},
        {"seven.weight", 31}};
}

ShardedOptimizer::Options small_buckets(bool is_sgd, ElementType parameter_type) {
    ShardedOptimizer::Options options;
    if (is_sgd) options.optimizer = Sgd{};
    options.parameter_type = parameter_type;
    options.decays = has_decay;
    options.first_bucket_bytes = first_bucket_bytes;
    options.bucket_bytes = bucket_bytes;
    return options;
}

void set_first_values(ShardedOptimizer& model) {
    const bool narrow = has_narrow(model);
    for (std::size_t p = 0; p < model.parameter_count(); ++p)
        for (std::size_t i = 0; i < model.spec(p).count; ++i) {
            if (narrow)
                model.param_bfloat16(p)[i] = BFloat16(first_value(p, i));
            else
                model.param(p)[i] = first_value(p, i);
        }
}

void take_step(ShardedOptimizer& model, std::uint64_t number, float max_norm) {
    const bool narrow = has_narrow(model);
    const int rank = model.group().rank();
    model.zero_gradients();
    for (auto p = model.parameter_count(); p-- > 0;) {
        model.await_parameter(p);
        for (std::size_t i = 0; i < model.spec(p).count; ++i)
            model.grad(p)[i] = gradient_of(value_at(model, p, i, narrow), i, rank, number);
        model.mark_ready(p);
    }
    if (max_norm > 0) model.clip_gradients(max_norm);
    model.step(rate);
}

std::vector<float> values_of(ShardedOptimizer& model) {
    model.await_parameters();
    const bool narrow = has_narrow(model);
    std::vector<float> all;
    for (std::size_t p = 0; p < model.parameter_count(); ++p)
        for (std::size_t i = 0; i < model.spec(p).count; ++i)
            all.push_back(value_at(model, p, i, narrow));
    return all;
}

std::vector<float> trained_unsharded(
    const ProcessGroup& group,
    const ShardedOptimizer::Options& options,
    std::uint64_t steps,
    float max_norm) {
    const auto specs = odd_parameters();
    Reducer::Options limits;
    limits.first_bucket_bytes = options.first_bucket_bytes;
    limits.bucket_bytes = options.bucket_bytes;
    Reducer reducer(group, specs, limits);
    std::vector<Whole> wholes;
    for (std::size_t p = 0; p < specs.size(); ++p) {
        Whole whole;
        for (std::size_t i = 0; i < specs[p].count; ++i)
            whole.master.push_back(as_parameter(options, first_value(p, i)));
        whole.first.resize(specs[p].count);
        whole.second.resize(specs[p].count);
        std::copy(whole.master.begin(), whole.master.end(), reducer.param(p));
        wholes.push_back(std::move(whole));
    }
    for (std::uint64_t number = 0; number < steps; ++number) {
        for (auto p = specs.size(); p-- > 0;) {
            for (std::size_t i = 0; i < specs[p].count; ++i)
                reducer.grad(p)[i] = gradient_of(reducer.param(p)[i], i, group.rank(), number);
            reducer.mark_ready(p);
        }
        reducer.step([&] {
            if (max_norm > 0) reducer.clip_gradients(max_norm);
            for (std::size_t p = 0; p < specs.size(); ++p) {
                update(options, specs[p], number, wholes[p], reducer.grad(p));
                for (std::size_t i = 0; i < specs[p].count; ++i)
                    reducer.param(p)[i] = as_parameter(options, wholes[p].master[i]);
            }
        });
    }
    std::vector<float> all;
    for (std::size_t p = 0; p < specs.size(); ++p)
        all.insert(all.end(), reducer.param(p), reducer.param(p) + specs[p].count);
    return all;
}

namespace {

std::string difference_from_unsharded(
    const ProcessGroup& group, const ShardedOptimizer::Options& options, float max_norm) {
    constexpr std::uint64_t steps = 6;
    const auto expected = trained_unsharded(group, options, steps, max_norm);
    ShardedOptimizer model(group, odd_parameters(), options);
    if (group.rank() == 0) set_first_values(model);
    model.broadcast_parameters();
    for (std::uint64_t number = 0; number < steps; ++number)
        take_step(model, number, max_norm);
    const auto values = values_of(model);
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (std::memcmp(&values[i], &expected[i], sizeof(float)) != 0)
            return "optimizer " + std::to_string(options.optimizer.index()) +
                   (is_narrow(options) ? ", bfloat16" : "") + (max_norm > 0 ? ", clipped" : "") +
                   ": value " + std::to_string(i) + " is " + std::to_string(values[i]) +
                   ", unsharded it is " + std::to_string(expected[i]);
    return {};
}

}  // namespace

std::string difference_from_unsharded(const ProcessGroup& group) {
    for (const bool is_sgd : {false, true})
        for (const auto type : {ElementType::float32, ElementType::bfloat16})
            for (const float max_norm : {0.0F, 1.5F}) {
                auto difference =
                    difference_from_unsharded(group, small_buckets(is_sgd, type), max_norm);
                if (!difference.empty()) return difference;
            }
    return {};
}

std::string excess_memory_of_checkpoint(const ProcessGroup& group, const std::string& path) {
    constexpr std::size_t count = std::size_t{16} << 20;
    ShardedOptimizer model(group, {{"weight", count}}, ShardedOptimizer::Options{});
    model.broadcast_parameters();
    model.mark_ready(0);
    model.step(rate);
    model.await_parameters();
    const auto shard =
        model.state_bytes() + count * sizeof(float) / static_cast<std::size_t>(group.size());
    const ShardedFolder folder(path);
    Checkpoint checkpoint;
    checkpoint.round = 0;
    const auto saving = peak_of([&] { model.save(folder, checkpoint); });
    const auto loading = peak_of([&] { model.load_newest(folder); });
    if (saving <= shard / 10 && loading <= shard / 10) return {};
    return "a shard of " + std::to_string(shard) + " bytes needs " + std::to_string(saving) +
           " more while it is saved, and " + std::to_string(loading) + " while it is loaded";
}

}  // namespace ddprun::tests
