// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/model_memory.hpp"
#include "ddprun/optimizers.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace transformer {

/// The settings of both programs.
inline constexpr ddprun::AdamW settings{0.9F, 0.95F, 1e-8F, 0.1F};

/// Weight decay is for weights only.
inline bool decays(const ddprun::ParameterSpec& spec) {
    return spec.name.ends_with("weight");
}

/// AdamW of a whole model, on every rank.
class AdamW {
public:
    explicit AdamW(const std::vector<ddprun::ParameterSpec>& specs) : specs_(specs) {
        for (const auto& spec : specs) {
            first.emplace_back(spec.count);
            second.emplace_back(spec.count);
        }
    }

    /// `number` counts the steps from 1, also over a restart.
    void step(std::size_t parameter, float* values, const float* gradient, float rate, std::int64_t number) {
        const auto& spec = specs_[parameter];
        ddprun::step_adam_w(
            settings,
            {rate, number, decays(spec)},
            values,
            first[parameter].data(),
            second[parameter].data(),
            gradient,
            spec.count);
    }

    /// Averages of the gradients and of their squares: part of a checkpoint.
    std::vector<std::vector<float>> first, second;

private:
    std::vector<ddprun::ParameterSpec> specs_;
};

}  // namespace transformer
