// SPDX-License-Identifier: Apache-2.0
#include "optimizer.hpp"

#include "mlp.hpp"

#include <cmath>

namespace mnist {

std::string name_of(OptimizerKind kind) {
    return kind == OptimizerKind::sgd ? "sgd" : "adam";
}

std::vector<std::string> moments_of(OptimizerKind kind) {
    if (kind == OptimizerKind::sgd) return {"momentum"};
    return {"adam/mean", "adam/square"};
}

std::vector<Moment> laid_out(const std::vector<std::string>& moments, std::vector<float>& memory) {
    std::size_t count = 0;
    for (const auto& shape : Mlp::parameters())
        count += shape.count();
    memory.assign(moments.size() * count, 0.0F);
    std::vector<Moment> all;
    float* next = memory.data();
    for (const auto& name : moments) {
        all.push_back({name, {}});
        for (const auto& shape : Mlp::parameters()) {
            all.back().values.push_back(next);
            next += shape.count();
        }
    }
    return all;
}

Optimizer::Optimizer(OptimizerKind kind, float rate)
    : kind_(kind),
      rate_(rate),
      moments_(laid_out(moments_of(kind), memory_)) {}

void Optimizer::step(const Numbers& parameters, const Numbers& gradients, std::uint64_t number) {
    if (kind_ == OptimizerKind::sgd)
        step_sgd(parameters, gradients);
    else
        step_adam(parameters, gradients, number);
}

void Optimizer::step_sgd(const Numbers& parameters, const Numbers& gradients) {
    const auto& shapes = Mlp::parameters();
    const auto& velocities = moments_[0].values;
    for (std::size_t p = 0; p < shapes.size(); ++p)
        for (std::size_t i = 0; i < shapes[p].count(); ++i) {
            velocities[p][i] = momentum * velocities[p][i] + gradients[p][i];
            parameters[p][i] -= rate_ * velocities[p][i];
        }
}

void Optimizer::step_adam(
    const Numbers& parameters, const Numbers& gradients, std::uint64_t number) {
    const auto& shapes = Mlp::parameters();
    const auto steps = static_cast<double>(number);
    const auto rate = static_cast<float>(rate_ / (1 - std::pow(double{first_decay}, steps)));
    const auto scale = static_cast<float>(1 / std::sqrt(1 - std::pow(double{second_decay}, steps)));
    for (std::size_t p = 0; p < shapes.size(); ++p)
        for (std::size_t i = 0; i < shapes[p].count(); ++i) {
            auto& mean = moments_[0].values[p][i];
            auto& square = moments_[1].values[p][i];
            const float slope = gradients[p][i];
            mean = first_decay * mean + (1 - first_decay) * slope;
            square = second_decay * square + (1 - second_decay) * slope * slope;
            parameters[p][i] -= rate * mean / (std::sqrt(square) * scale + adam_epsilon);
        }
}

}  // namespace mnist
