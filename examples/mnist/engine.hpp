// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idx_file.hpp"
#include "numbers.hpp"
#include "optimizer.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mnist {

/// How a GPU multiplies: in whole floats, or with their first ten bits (TensorFloat-32), faster.
enum class Precision { fp32, tf32 };

struct EngineOptions {
    OptimizerKind optimizer = OptimizerKind::sgd;
    float learning_rate = 0;
    /// Dropout is drawn from these two and the step's number.
    std::uint64_t seed = 0;
    std::uint64_t rank = 0;
    /// For a GPU: which one, and how it multiplies.
    int device = 0;
    Precision precision = Precision::fp32;
};

/// How an engine's steps meet those of the other ranks: what a ddprun::Reducer does, in a form that
/// a module without the SDK can call.
struct Exchange {
    /// On the engine's device; they outlive it.
    Numbers parameters;
    Numbers gradients;
    /// On a GPU: a word there that the optimizer reads when a step's gradients are averaged; where
    /// it is 0 they are invalid and nothing is changed. Null: they are always good.
    const std::uint32_t* commit_word = nullptr;
    /// gradients[parameter] is complete, or will be when the stream has come this far.
    std::function<void(std::size_t parameter)> ready;
    /// Averages them, then `update`.
    std::function<void(const std::function<void()>& update)> step;
    /// On a GPU: `launch` gives a recorded step to the stream again; waits for all that is in the
    /// stream. Both find out about lost ranks.
    std::function<void(const std::function<void()>& launch)> replay;
    std::function<void()> synchronize;
};

/// Of the samples of this rank, as they were met in training.
struct Sums {
    double loss = 0;
    double correct = 0;
};

/// What computes: the network, its optimizer and the data, on some device. Knows of other ranks
/// what `Exchange` says. One thread.
class Engine {
public:
    Engine() = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    virtual ~Engine() = default;

    /// The GPU's stream (a CUstream) in which everything happens; null on the CPU.
    virtual void* stream() const = 0;
    /// Once, before everything below.
    virtual void attach(Exchange exchange) = 0;

    /// In the machine's memory: what the parameters and moments were at the last `fetch`, or are to
    /// be at the next `put`.
    virtual const ModelNumbers& numbers() const = 0;
    virtual void fetch() = 0;
    virtual void put() = 0;

    /// The samples to train, in this order. `steps` is how many steps there were before, ever.
    virtual void begin_epoch(const std::vector<std::uint64_t>& order, std::uint64_t steps) = 0;
    /// One step with the next `batch_size` of them; there are so many. May return before it is
    /// done.
    virtual void step(std::size_t batch_size) = 0;
    /// Of the steps since the last call; waits for them.
    virtual Sums take_sums() = 0;

    /// How many of the test samples first, first + stride, ... the network names right.
    virtual std::int64_t count_correct(std::size_t first, std::size_t stride) = 0;

    /// For the line of an epoch: " 1.2 GB of the GPU's memory"; empty where there is nothing to
    /// say.
    virtual std::string memory_use() const = 0;
};

/// What the module for GPUs, libmnist_cuda.so, has by the name mnist_make_cuda_engine. The data
/// need not outlive the engine. Throws std::runtime_error in the driver's words.
using MakeCudaEngine = Engine*(const EngineOptions&, const Dataset& train, const Dataset& test);

}  // namespace mnist
