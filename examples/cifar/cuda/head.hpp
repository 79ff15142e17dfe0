// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/buffer.hpp"
#include "gpu/kernels.hpp"
#include "gpu_network.hpp"
#include "kernels.hpp"

#include <cstddef>

namespace cifar {

/// The part after the convolutions: the maximum of each channel, the linear layer, softmax, cross
/// entropy, and the totals.
class Head {
public:
    /// `side`: the width of the last unit's output pictures.
    Head(const gpu::Stream& stream, std::size_t features, std::size_t side, std::size_t max_count);

    /// Computes scores of `count` pictures, and adds their sums to the totals.
    void forward(
        const Eight* x, const float* weight, const unsigned char* labels, std::size_t count);
    /// Called after forward.
    void weight_gradient(std::size_t count, float* gradient);
    void input_gradient(const float* weight, std::size_t count, Eight* dx);

    /// Waits for the GPU. The totals restart at zero.
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
