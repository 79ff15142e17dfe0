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

/// Sums over the samples of the batches since the last `take_totals`.
struct Totals {
    double loss = 0;
    double correct = 0;
};

/// The network on a GPU, with its optimizer and data: the functions of the CUDA part for the
/// program. The program averages gradients and determines the order of calls.
///
/// Calls enqueue work in one stream and return, unless documented otherwise. Errors are exceptions
/// whose text is a sentence.
class GpuNetwork {
public:
    struct Options {
        /// The index among the devices in CUDA_VISIBLE_DEVICES.
        int device = 0;
        std::size_t width = 64;
        /// The largest batch that will be used.
        std::size_t batch_size = 512;
        /// See Augmentation.
        std::uint64_t seed = 1;
        int cut = 8;
    };

    /// Called when the work that makes this gradient has been enqueued in the stream.
    using GradientDone = std::function<void(std::size_t parameter)>;
    /// For a batch norm over all ranks: adds up sums in the GPU's memory over the ranks. It runs
    /// after the work that is in the stream now, and before later work.
    using SumOverRanks = std::function<void(float* sums, std::size_t count)>;

    virtual ~GpuNetwork() = default;

    /// "NVIDIA H200"
    virtual std::string device_name() const = 0;
    /// Bytes of the GPU's memory that all processes use.
    virtual std::size_t memory_used() const = 0;
    /// A CUstream.
    virtual void* stream() const = 0;

    /// Sets the memory of parameters and gradients on the GPU, in the order of the architecture's.
    virtual void place(
        const std::vector<float*>& parameters, const std::vector<float*>& gradients) = 0;
    /// Batch norm over `rank_count` ranks with equally many samples; `sum` must outlive training.
    virtual void synchronise_norm(int rank_count, SumOverRanks sum) = 0;
    /// Waits until the data is in the GPU's memory.
    virtual void load(Split split, const Dataset& data) = 0;

    /// Sets the pictures of an epoch, in its order. Waits.
    virtual void begin_epoch(std::uint64_t epoch, const std::vector<std::uint64_t>& order) = 0;
    /// Forward and backward over `count` pictures from order[first] on. Gradients of the mean loss
    /// are written (not added), from the last parameter to the first. Requires: 0 < count <=
    /// batch_size.
    virtual void train(std::size_t first, std::size_t count, const GradientDone& done) = 0;
    /// `committed`: a word in the GPU's memory that is 0 when nothing may be updated; or null.
    virtual void update(float rate, const std::uint32_t* committed) = 0;
    /// The totals of the training since the last call. Waits.
    virtual Totals take_totals() = 0;

    /// How many of the test pictures first, first + stride, ... are classified correctly. Waits.
    virtual std::int64_t count_correct(std::size_t first, std::size_t stride) = 0;

    /// The values for a checkpoint. Running averages: each unit's means followed by its variances,
    /// in one array.
    virtual std::size_t running_count() const = 0;
    /// In the GPU's memory.
    virtual float* running() const = 0;
    /// These functions wait. Call `refresh` after writing parameters in the GPU's memory by other
    /// means.
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
