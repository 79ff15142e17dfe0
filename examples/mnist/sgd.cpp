// SPDX-License-Identifier: Apache-2.0
#include "sgd.hpp"

namespace mnist {
namespace {

constexpr float momentum = 0.9F;

}  // namespace

Sgd::Sgd(float rate) : rate_(rate) {
    std::size_t count = 0;
    for (const auto& shape : Mlp::parameters())
        count += shape.count();
    memory_.resize(count);
    float* next = memory_.data();
    for (const auto& shape : Mlp::parameters()) {
        views_.push_back(next);
        next += shape.count();
    }
}

void Sgd::step(const Numbers& parameters, const Numbers& gradients) {
    const auto& shapes = Mlp::parameters();
    for (std::size_t p = 0; p < shapes.size(); ++p)
        for (std::size_t i = 0; i < shapes[p].count(); ++i) {
            views_[p][i] = momentum * views_[p][i] + gradients[p][i];
            parameters[p][i] -= rate_ * views_[p][i];
        }
}

}  // namespace mnist
