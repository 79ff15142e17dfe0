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

/// How a GPU multiplies: in full float precision, or faster with ten bits of each fraction
/// (TensorFloat-32).
enum class Precision { fp32, tf32 };

struct EngineOptions {
    OptimizerKind optimizer = OptimizerKind::sgd;
    float learning_rate = 0;
    /// Dropout depends on these two and on the step's number.
    std::uint64_t seed = 0;
    std::uint64_t rank = 0;
    /// For a GPU: which one, and how it multiplies.
    int device = 0;
    Precision precision = Precision::fp32;
};

/// How an engine's steps are combined with those of other ranks: the functions of a
/// ddprun::Reducer, in a form that a module without the SDK can call.
struct Exchange {
    /// These are on the engine's device, and must outlive it.
    Numbers parameters;
    Numbers gradients;
    /// On a GPU: a word that the optimizer reads when a step's gradients are averaged. When it is
    /// 0, they are invalid and nothing is changed. Null: they are always valid.
    const std::uint32_t* commit_word = nullptr;
    /// gradients[parameter] is complete, or will be when the stream has reached this point.
    std::function<void(std::size_t parameter)> ready;
    /// Averages the gradients, then calls `update`.
    std::function<void(const std::function<void()>& update)> step;
    /// On a GPU: `launch` enqueues a recorded step again; `synchronize` waits for the stream. Both
    /// detect lost ranks.
    std::function<void(const std::function<void()>& launch)> replay;
    std::function<void()> synchronize;
};

/// Sums over this rank's samples, as computed during training.
struct Sums {
    double loss = 0;
    double correct = 0;
};

/// Computes on some device: has the network, its optimizer and the data. Other ranks are only
/// reached through `Exchange`. One thread.
class Engine {
public:
    Engine() = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    virtual ~Engine() = default;

    /// The GPU's stream (a CUstream) for all work; null on the CPU.
    virtual void* stream() const = 0;
    /// Called once, before the functions below.
    virtual void attach(Exchange exchange) = 0;

    /// In the machine's memory: parameters and moments at the last `fetch`, or for the next `put`.
    virtual const ModelNumbers& numbers() const = 0;
    virtual void fetch() = 0;
    virtual void put() = 0;

    /// Sets the samples to train on, in this order. `steps` is the number of earlier steps,
    /// including those before restarts.
    virtual void begin_epoch(const std::vector<std::uint64_t>& order, std::uint64_t steps) = 0;
    /// Performs one step with the next `batch_size` samples, which must exist. May return before it
    /// is done.
    virtual void step(std::size_t batch_size) = 0;
    /// Returns the sums of the steps since the last call; waits for them.
    virtual Sums take_sums() = 0;

    /// How many of the test samples first, first + stride, ... are classified correctly.
    virtual std::int64_t count_correct(std::size_t first, std::size_t stride) = 0;

    /// The text for an epoch's line: " 1.2 GB of the GPU's memory"; empty on the CPU.
    virtual std::string memory_use() const = 0;
};

/// The function mnist_make_cuda_engine of libmnist_cuda.so, the module for GPUs. The data need not
/// outlive the engine. Throws std::runtime_error with the driver's message.
using MakeCudaEngine = Engine*(const EngineOptions&, const Dataset& train, const Dataset& test);

}  // namespace mnist
