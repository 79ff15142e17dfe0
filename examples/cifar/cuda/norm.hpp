// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architecture.hpp"
#include "gpu/buffer.hpp"
#include "gpu/kernels.hpp"
#include "gpu_network.hpp"
#include "kernels.hpp"

#include <cstddef>

namespace cifar {

/// Batch norm, ReLU and pooling of one unit. The caller owns its parameters and gradients.
struct NormMemory {
    const float* weight;
    const float* bias;
    float* weight_gradient;
    float* bias_gradient;
    /// Mean and variance of each channel.
    float* running;
};

/// Shared by a network's batch norms: kernels, scratch memory, and the ranks that they cover.
class NormWorkshop {
public:
    NormWorkshop(const gpu::Stream& stream, std::size_t max_channels);

    void synchronise(int rank_count, GpuNetwork::SumOverRanks sum);

    /// Computes y from the convolution's output x, by this batch's mean and deviation; writes the
    /// values that backward needs to `kept`.
    void forward(
        const ConvUnit& unit,
        std::size_t count,
        const Eight* x,
        const Eight* added,
        const NormMemory& memory,
        float* kept,
        Eight* y);
    /// Uses the running averages.
    void evaluate(
        const ConvUnit& unit,
        std::size_t count,
        const Eight* x,
        const Eight* added,
        const NormMemory& memory,
        float* kept,
        Eight* y);
    /// Writes the parameters' gradients, calls `done`, and writes dx.
    template <class Done>
    void backward(
        const ConvUnit& unit,
        std::size_t count,
        const Eight* x,
        const Eight* dy,
        const NormMemory& memory,
        const float* kept,
        Eight* dx,
        const Done& done) {
        sum_gradients(unit, count, x, dy, memory, kept);
        done();
        finish_backward(unit, count, x, dy, kept, dx);
    }

private:
    void apply(
        const ConvUnit& unit,
        std::size_t count,
        const Eight* x,
        const Eight* added,
        const float* kept,
        Eight* y);
    void sum_gradients(
        const ConvUnit& unit,
        std::size_t count,
        const Eight* x,
        const Eight* dy,
        const NormMemory& memory,
        const float* kept);
    void finish_backward(
        const ConvUnit& unit,
        std::size_t count,
        const Eight* x,
        const Eight* dy,
        const float* kept,
        Eight* dx);
    void fold(int channels, unsigned blocks);
    void sum_over_ranks(int channels);

    const gpu::Stream& stream_;
    gpu::Kernels module_;
    gpu::Kernel<NormSums> sums_kernel_;
    gpu::Kernel<NormFold> fold_kernel_;
    gpu::Kernel<NormFinish> finish_;
    gpu::Kernel<NormFinishRunning> finish_running_;
    gpu::Kernel<NormApply> apply_;
    gpu::Kernel<NormApplyPool> apply_pool_;
    gpu::Kernel<NormBackwardSums> backward_sums_;
    gpu::Kernel<NormBackwardSumsPool> backward_sums_pool_;
    gpu::Kernel<NormGradients> gradients_;
    gpu::Kernel<NormBackward> backward_;
    gpu::Kernel<NormBackwardPool> backward_pool_;
    gpu::Buffer<float> partial_;
    gpu::Buffer<float> sums_;
    int rank_count_ = 1;
    GpuNetwork::SumOverRanks sum_;
};

}  // namespace cifar
