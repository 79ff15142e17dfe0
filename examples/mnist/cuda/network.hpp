// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/buffer.hpp"
#include "gpu/kernels.hpp"
#include "gpu/stream.hpp"
#include "kernels.hpp"
#include "matmul.hpp"
#include "numbers.hpp"
#include "optimizer.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace mnist::cuda {

/// mnist::Mlp on the GPU: enqueues forward and backward passes and the optimizer, without waiting.
class Network {
public:
    struct Options {
        OptimizerKind optimizer = OptimizerKind::sgd;
        float learning_rate = 0;
        bool is_tf32 = false;
        /// The seed of dropout.
        Long seed = 0;
        Long rank = 0;
    };

    /// The stream must outlive it.
    Network(const gpu::Stream& stream, const Options& options);

    /// Sets the GPU memory, which must outlive the network. Called once, before the functions
    /// below.
    void attach(Numbers parameters, Numbers gradients, const unsigned* commit_word);

    /// Allocates memory and selects kernels for batches of this size. Requires: if `has_room` is
    /// false for the size, the stream is idle; recordings then become invalid.
    void prepare(std::size_t batch_size);
    bool has_room(std::size_t batch_size) const { return batch_size <= capacity_; }

    /// Writes (does not add) the gradients of the mean loss, and adds to `sums`. `done` is called
    /// for each gradient in Mlp's order when all are enqueued: they form one bucket of the reducer
    /// anyway.
    void train(
        const Samples& samples,
        std::size_t batch_size,
        BatchSums* sums,
        const std::function<void(std::size_t parameter)>& done);
    /// Updates the parameters by the gradients; then `position` is that of the next step.
    void update(std::size_t batch_size, Position* position);
    /// Without dropout; adds the number of correctly classified samples to `correct`.
    void count_correct(const Samples& samples, std::size_t batch_size, unsigned* correct);

    /// The optimizer's state, moments_of(optimizer), in GPU memory.
    const std::vector<Numbers>& moments() const { return moments_; }

private:
    /// The matrix products of one batch size.
    struct Products {
        Products(const Blas& blas, const Blas& aside_blas, std::size_t batch_size, bool is_tf32);
        Matmul first, second;
        Matmul second_weight_gradient, first_output_gradient, first_weight_gradient;
    };

    const gpu::Stream& stream_;
    Options options_;
    gpu::Kernels kernels_;
    gpu::Kernel<Gather> gather_;
    gpu::Kernel<BiasReluDropout> bias_relu_dropout_;
    gpu::Kernel<Output> output_;
    gpu::Kernel<OutputGradients> output_gradients_;
    gpu::Kernel<HiddenBackward> hidden_backward_;
    gpu::Kernel<UpdateSgd> update_;
    gpu::Kernel<CountCorrect> count_correct_;
    Blas blas_;
    /// Half of the backward pass runs concurrently with the other half.
    gpu::Stream aside_;
    Blas aside_blas_;
    gpu::Event fork_, join_;
    std::map<std::size_t, Products> products_;

    Numbers parameters_;
    Numbers gradients_;
    const unsigned* commit_word_ = nullptr;
    gpu::Buffer<float> moment_memory_;
    std::vector<Numbers> moments_;

    std::size_t capacity_ = 0;
    gpu::Buffer<float> input_, first_, second_;
    gpu::Buffer<float> first_gradient_, second_gradient_, score_gradient_;
    gpu::Buffer<float> losses_;
    gpu::Buffer<unsigned> correct_;
};

}  // namespace mnist::cuda
