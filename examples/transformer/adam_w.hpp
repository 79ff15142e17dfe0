// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/model_memory.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace transformer {

/// AdamW as PyTorch's: the weights decay beside the step, not through the gradient. Parameters
/// whose name does not end in "weight" do not decay.
class AdamW {
public:
    static constexpr float decay = 0.1F;
    static constexpr float first_rate = 0.9F;
    static constexpr float second_rate = 0.95F;
    static constexpr float epsilon = 1e-8F;

    explicit AdamW(const std::vector<ddprun::ParameterSpec>& specs) : specs_(specs) {
        for (const auto& spec : specs) {
            first.emplace_back(spec.count);
            second.emplace_back(spec.count);
        }
    }

    /// `number` counts the steps from 1, also over a restart.
    void step(std::size_t parameter, float* values, const float* gradient, float rate, std::int64_t number) {
        const auto& spec = specs_[parameter];
        const float kept = spec.name.ends_with("weight") ? 1 - rate * decay : 1;
        const auto steps = static_cast<float>(number);
        const float first_correction = 1 - std::pow(first_rate, steps);
        const float second_correction = 1 - std::pow(second_rate, steps);
        auto& m = first[parameter];
        auto& v = second[parameter];
        for (std::size_t i = 0; i < spec.count; ++i) {
            m[i] = first_rate * m[i] + (1 - first_rate) * gradient[i];
            v[i] = second_rate * v[i] + (1 - second_rate) * gradient[i] * gradient[i];
            const float size = std::sqrt(v[i] / second_correction) + epsilon;
            values[i] = kept * values[i] - rate * (m[i] / first_correction) / size;
        }
    }

    /// Averages of the gradients and of their squares: part of a checkpoint.
    std::vector<std::vector<float>> first, second;

private:
    std::vector<ddprun::ParameterSpec> specs_;
};

}  // namespace transformer
