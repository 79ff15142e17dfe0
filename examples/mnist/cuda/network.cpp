// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include "mlp.hpp"

#include <utility>

extern "C" const unsigned char mnist_kernels_fatbin[];

namespace mnist::cuda {
namespace {

// The order of Mlp::parameters().
enum Index : std::size_t { hidden1, hidden1_bias, hidden2, hidden2_bias, output };

constexpr unsigned update_threads = 256;

unsigned size(std::size_t count) {
    return static_cast<unsigned>(count);
}

Product product(std::size_t rows, std::size_t columns, std::size_t inner, bool is_tf32) {
    Product all;
    all.rows = rows;
    all.columns = columns;
    all.inner = inner;
    all.is_tf32 = is_tf32;
    return all;
}

/// output = input * weight', with a line of the weight for each output.
Product layer(std::size_t batch, std::size_t outputs, std::size_t inputs, bool is_tf32) {
    auto all = product(batch, outputs, inputs, is_tf32);
    all.right_is_transposed = true;
    return all;
}

/// gradient' * input
Product weight_gradient(std::size_t batch, std::size_t outputs, std::size_t inputs, bool is_tf32) {
    auto all = product(outputs, inputs, batch, is_tf32);
    all.left_is_transposed = true;
    return all;
}

}  // namespace

Network::Products::Products(
    const Blas& blas, const Blas& aside_blas, std::size_t batch, bool is_tf32)
    : first(blas, layer(batch, hidden_count, pixel_count, is_tf32)),
      second(blas, layer(batch, hidden_count, hidden_count, is_tf32)),
      second_weight_gradient(
          aside_blas, weight_gradient(batch, hidden_count, hidden_count, is_tf32)),
      first_output_gradient(blas, product(batch, hidden_count, hidden_count, is_tf32)),
      first_weight_gradient(blas, weight_gradient(batch, hidden_count, pixel_count, is_tf32)) {}

Network::Network(const gpu::Stream& stream, const Options& options)
    : stream_(stream),
      options_(options),
      kernels_(mnist_kernels_fatbin),
      gather_(kernels_.get<Gather>("mnist_gather")),
      bias_relu_dropout_(kernels_.get<BiasReluDropout>("mnist_bias_relu_dropout")),
      output_(kernels_.get<Output>("mnist_output")),
      output_gradients_(kernels_.get<OutputGradients>("mnist_output_gradients")),
      hidden_backward_(kernels_.get<HiddenBackward>("mnist_hidden_backward")),
      update_(kernels_.get<UpdateSgd>(
          options.optimizer == OptimizerKind::sgd ? "mnist_update_sgd" : "mnist_update_adam")),
      count_correct_(kernels_.get<CountCorrect>("mnist_count_correct")) {
    std::size_t count = 0;
    for (const auto& shape : Mlp::parameters())
        count += shape.count();
    const auto names = moments_of(options.optimizer);
    moment_memory_ = gpu::Buffer<float>{names.size() * count};
    float* next = moment_memory_.data();
    for (std::size_t moment = 0; moment < names.size(); ++moment) {
        moments_.emplace_back();
        for (const auto& shape : Mlp::parameters()) {
            moments_.back().push_back(next);
            next += shape.count();
        }
    }
}

void Network::attach(Numbers parameters, Numbers gradients, const unsigned* commit_word) {
    parameters_ = std::move(parameters);
    gradients_ = std::move(gradients);
    commit_word_ = commit_word;
}

void Network::prepare(std::size_t batch) {
    if (!has_room(batch)) {
        input_ = gpu::Buffer<float>{batch * pixel_count};
        for (auto* hidden : {&first_, &second_, &first_gradient_, &second_gradient_})
            *hidden = gpu::Buffer<float>{batch * hidden_count};
        score_gradient_ = gpu::Buffer<float>{batch * class_count};
        losses_ = gpu::Buffer<float>{batch};
        correct_ = gpu::Buffer<unsigned>{batch};
        capacity_ = batch;
    }
    if (products_.find(batch) == products_.end())
        products_.try_emplace(batch, blas_, aside_blas_, batch, options_.is_tf32);
}

void Network::train(
    const Samples& samples,
    std::size_t batch_size,
    BatchSums* sums,
    const std::function<void(std::size_t parameter)>& done) {
    const auto& products = products_.at(batch_size);
    const auto batch = size(batch_size);
    const Dropout first_dropout{samples.position, options_.seed, options_.rank, 1};
    const Dropout second_dropout{samples.position, options_.seed, options_.rank, 2};
    const auto halves = gpu::Grid::for_each(batch_size * hidden_count / 2);

    gather_(
        stream_, gpu::Grid::for_each(batch_size * pixel_count / 4), samples, batch, input_.data());
    products.first(stream_, input_.data(), parameters_[hidden1], first_.data());
    bias_relu_dropout_(
        stream_, halves, first_.data(), parameters_[hidden1_bias], batch, first_dropout);
    products.second(stream_, first_.data(), parameters_[hidden2], second_.data());
    bias_relu_dropout_(
        stream_, halves, second_.data(), parameters_[hidden2_bias], batch, second_dropout);
    output_(
        stream_,
        {batch, output_threads},
        second_.data(),
        parameters_[output],
        samples,
        batch,
        score_gradient_.data(),
        second_gradient_.data(),
        losses_.data(),
        correct_.data());

    // The averaging does not depend on these.
    fork_.record(stream_);
    fork_.hold(aside_);
    output_gradients_(
        aside_,
        {class_count + 2, gradient_threads},
        score_gradient_.data(),
        second_.data(),
        second_gradient_.data(),
        losses_.data(),
        correct_.data(),
        batch,
        gradients_[output],
        gradients_[hidden2_bias],
        sums);
    products.second_weight_gradient(
        aside_, second_gradient_.data(), first_.data(), gradients_[hidden2]);
    join_.record(aside_);

    products.first_output_gradient(
        stream_, second_gradient_.data(), parameters_[hidden2], first_gradient_.data());
    hidden_backward_(
        stream_,
        {hidden_count / backward_units, backward_threads},
        first_gradient_.data(),
        first_.data(),
        batch,
        gradients_[hidden1_bias]);
    products.first_weight_gradient(
        stream_, first_gradient_.data(), input_.data(), gradients_[hidden1]);
    join_.hold(stream_);
    for (std::size_t parameter = parameter_count; parameter > 0; --parameter)
        done(parameter - 1);
}

void Network::update(std::size_t batch_size, Position* position) {
    OptimizedStep step{};
    std::size_t total = 0;
    for (std::size_t p = 0; p < parameter_count; ++p) {
        const auto count = Mlp::parameters()[p].count();
        step.parameters[p] = {
            parameters_[p], gradients_[p], moments_.front()[p], moments_.back()[p], size(count)};
        total += count;
    }
    step.commit_word = commit_word_;
    step.position = position;
    step.rate = options_.learning_rate;
    step.batch_size = size(batch_size);
    update_(stream_, gpu::Grid::for_each(total, update_threads), step);
}

void Network::count_correct(const Samples& samples, std::size_t batch_size, unsigned* correct) {
    const auto batch = size(batch_size);
    auto first = layer(batch_size, hidden_count, pixel_count, options_.is_tf32);
    first.relu_bias = parameters_[hidden1_bias];
    auto second = layer(batch_size, hidden_count, hidden_count, options_.is_tf32);
    second.relu_bias = parameters_[hidden2_bias];

    gather_(
        stream_, gpu::Grid::for_each(batch_size * pixel_count / 4), samples, batch, input_.data());
    Matmul{blas_, first}(stream_, input_.data(), parameters_[hidden1], first_.data());
    Matmul{blas_, second}(stream_, first_.data(), parameters_[hidden2], second_.data());
    count_correct_(
        stream_, {batch, output_threads}, second_.data(), parameters_[output], samples, correct);
}

}  // namespace mnist::cuda
