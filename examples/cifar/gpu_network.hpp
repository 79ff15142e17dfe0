// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architecture.hpp"
#include "image_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cifar {

/// Sums over the samples of batches.
struct Totals {
    double loss = 0;
    double correct = 0;
};

/// The network on a GPU, with its optimizer and data: what the CUDA part does for the program. The
/// program averages gradients and decides the order of calls.
///
/// Calls give work to one stream and return, unless they say otherwise. Errors are exceptions with
/// a sentence.
class GpuNetwork {
public:
    struct Options {
        /// As CUDA_VISIBLE_DEVICES counts.
        int device = 0;
        std::size_t width = 64;
        /// The largest that will be asked for.
        std::size_t batch_size = 512;
        /// See Augmentation.
        std::uint64_t seed = 1;
        int cut = 8;
    };

    /// Called when what makes the gradient has been given to the stream.
    using GradientDone = std::function<void(std::size_t parameter)>;
    /// For a batch norm over all ranks: adds up sums in the GPU's memory over them, after what is
    /// in the stream now and before what comes later.
    using SumOverRanks = std::function<void(float* sums, std::size_t count)>;

    virtual ~GpuNetwork() = default;

    /// "NVIDIA H200"
    virtual std::string device_name() const = 0;
    /// Bytes of the GPU's memory that all processes use.
    virtual std::size_t memory_used() const = 0;
    /// A CUstream.
    virtual void* stream() const = 0;

    /// Where parameters and gradients lie in the GPU's memory, in the order of the architecture's.
    virtual void place(
        const std::vector<float*>& parameters, const std::vector<float*>& gradients) = 0;
    /// Batch norm over `rank_count` ranks, each with as many samples; `sum` must outlive training.
    virtual void synchronise_norm(int rank_count, SumOverRanks sum) = 0;
    /// Waits.
    virtual void load(Split split, const Dataset& data) = 0;

    /// The pictures of an epoch, in its order. Waits.
    virtual void begin_epoch(std::uint64_t epoch, const std::vector<std::uint64_t>& order) = 0;
    /// Forward and backward over `count` pictures from order[first] on. Gradients of the mean loss
    /// are written (not added), from the last parameter to the first. Requires: 0 < count <=
    /// batch_size.
    virtual void train(std::size_t first, std::size_t count, const GradientDone& done) = 0;
    /// `committed`: a word in the GPU's memory that is 0 when nothing must be updated; or null.
    virtual void update(float rate, const std::uint32_t* committed) = 0;
    /// Of what has been trained since the last time. Waits.
    virtual Totals take_totals() = 0;

    /// How many of the test pictures first, first + stride, ... it names right. Waits.
    virtual std::int64_t count_correct(std::size_t first, std::size_t stride) = 0;

    /// What a checkpoint holds. Running averages: of each unit its means and then its variances,
    /// all in one piece.
    virtual std::size_t running_count() const = 0;
    /// In the GPU's memory.
    virtual float* running() const = 0;
    /// These wait. After writing parameters in the GPU's memory by other means: `refresh`.
    virtual std::vector<float> parameter(std::size_t index) const = 0;
    virtual std::vector<float> velocity(std::size_t index) const = 0;
    virtual std::vector<float> running_averages() const = 0;
    virtual void set_parameter(std::size_t index, const std::vector<float>& values) = 0;
    virtual void set_velocity(std::size_t index, const std::vector<float>& values) = 0;
    virtual void set_running_averages(const std::vector<float>& values) = 0;
    virtual void refresh() = 0;
};

/// The CUDA part's only function, by this name. The caller deletes the network.
using MakeGpuNetwork = GpuNetwork* (*)(const GpuNetwork::Options&);
inline constexpr const char* make_gpu_network_name = "cifar_make_gpu_network";

}  // namespace cifar
