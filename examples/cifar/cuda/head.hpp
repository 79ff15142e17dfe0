// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/buffer.hpp"
#include "gpu/kernels.hpp"
#include "gpu_network.hpp"
#include "kernels.hpp"

#include <cstddef>

namespace cifar {

/// What comes after the convolutions: the largest value of each channel, the linear layer, softmax
/// and cross entropy, and how it went.
class Head {
public:
    /// `side`: of the pictures that the last unit gives.
    Head(const gpu::Stream& stream, std::size_t features, std::size_t side, std::size_t max_count);

    /// Scores of `count` pictures, and their sums added to the totals.
    void forward(
        const Eight* x, const float* weight, const unsigned char* labels, std::size_t count);
    /// After forward.
    void weight_gradient(std::size_t count, float* gradient);
    void input_gradient(const float* weight, std::size_t count, Eight* dx);

    /// Waits; the totals begin again at zero.
    Totals take_totals();

private:
    const gpu::Stream& stream_;
    int channels_;
    int pixels_;
    gpu::Kernels module_;
    gpu::Kernel<GlobalMax> global_max_;
    gpu::Kernel<Scores> scores_;
    gpu::Kernel<AddTotals> add_totals_;
    gpu::Kernel<LinearGradient> linear_gradient_;
    gpu::Kernel<FeaturesBackward> features_backward_;
    gpu::Buffer<float> features_;
    gpu::Buffer<unsigned char> winners_;
    gpu::Buffer<float> losses_;
    gpu::Buffer<unsigned char> is_right_;
    gpu::Buffer<float> score_gradients_;
    gpu::Buffer<double> totals_;
};

}  // namespace cifar
