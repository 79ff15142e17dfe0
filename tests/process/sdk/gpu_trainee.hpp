// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"
#include "ddprun/reducer.hpp"
#include "tests/process/sdk/gpu.hpp"
#include "tests/process/sdk/say.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// The model that scenarios of a rank with a fake GPU train.
namespace ddprun::tests {

using Values = std::vector<float>;

inline void expect(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error("not as expected: " + what);
}

inline std::vector<ParameterSpec> specs() {
    return {{"a", 5}, {"b", 1000}, {"c", 1}, {"d", 33}};
}

/// Several buckets.
inline Reducer::Options small_buckets() {
    Reducer::Options options;
    options.first_bucket_bytes = 64;
    options.bucket_bytes = 512;
    return options;
}

inline float gradient(std::uint64_t step, std::size_t parameter, std::size_t element, int rank) {
    const auto number = step * 7 + parameter * 5 + element % 13 + static_cast<unsigned>(rank) * 3;
    return static_cast<float>(number % 101) / 64 - 0.7F;
}

/// A model that is trained on the device of its group: its arithmetic is the same on a GPU and a
/// CPU.
class Trainee {
public:
    Trainee(
        const ProcessGroup& group,
        const Gpu* gpu,
        const Reducer::Options& options,
        const Placement& placement = {})
        : gpu_(gpu),
          model_(group, specs(), options, placement) {
        for (std::size_t i = 0; i < specs().size(); ++i)
            std::fill_n(model_.param(i), specs()[i].count, static_cast<float>(group.rank()));
        model_.broadcast_parameters(group.size() - 1);
    }

    Trainee(const Trainee&) = delete;
    Trainee& operator=(const Trainee&) = delete;
    /// Enqueued work uses this object.
    ~Trainee() {
        if (gpu_) gpu_->drain();
    }

    Reducer& model() { return model_; }

    /// The gradient of one rank, and the average when all ranks have marked theirs.
    void backward(int looks = 1) {
        for (std::size_t i = specs().size(); i-- > 0;) {
            run([this, i] { add_gradient(i); }, looks);
            model_.mark_ready(i);
        }
    }

    void optimize() {
        run([this] {
            if (const auto* word = model_.commit_word(); word && *word == 0) return;
            for (std::size_t i = 0; i < specs().size(); ++i)
                for (std::size_t k = 0; k < specs()[i].count; ++k)
                    model_.param(i)[k] -= 0.1F * model_.grad(i)[k];
        });
    }

    void step(int looks = 1) {
        model_.zero_gradients();
        backward(looks);
        model_.step([this] { optimize(); });
        run([this] { ++step_; });
    }

    Values parameters() {
        model_.synchronize();
        Values all;
        for (std::size_t i = 0; i < specs().size(); ++i)
            all.insert(all.end(), model_.param(i), model_.param(i) + specs()[i].count);
        return all;
    }

    void run(std::function<void()> kernel, int looks = 1) {
        if (gpu_)
            gpu_->run(std::move(kernel), looks);
        else
            kernel();
    }

private:
    void add_gradient(std::size_t i) {
        for (std::size_t k = 0; k < specs()[i].count; ++k)
            model_.grad(i)[k] += gradient(step_, i, k, model_.group().rank());
    }

    const Gpu* const gpu_;
    Reducer model_;
    std::uint64_t step_ = 0;  // the device's
};

/// The same on both kinds of group.
struct Pair {
    Pair(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu, const Reducer::Options& options)
        : gpu(on_gpu.device()),
          trainee((on_gpu.use_stream(gpu.stream()), on_gpu), &gpu, options),
          expected(on_cpu, nullptr, options) {}

    void expect_same(const std::string& what) {
        expect(trainee.parameters() == expected.parameters(), "parameters " + what);
        expect(
            trainee.model().committed_steps() == expected.model().committed_steps(),
            "committed steps " + what);
    }

    Gpu gpu;
    Trainee trainee;
    Trainee expected;
};

}  // namespace ddprun::tests
