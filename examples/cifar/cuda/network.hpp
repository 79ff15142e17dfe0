// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convolution.hpp"
#include "gpu/context.hpp"
#include "gpu_network.hpp"
#include "head.hpp"
#include "norm.hpp"
#include "weights.hpp"

#include <map>
#include <string>

namespace cifar {

class Network final : public GpuNetwork {
public:
    explicit Network(const Options& options);
    ~Network() override;

    std::string device_name() const override { return context_.name(); }
    std::size_t memory_used() const override { return context_.memory_use().used; }
    void* stream() const override { return stream_.get(); }

    void place(
        const std::vector<float*>& parameters, const std::vector<float*>& gradients) override;
    void synchronise_norm(int rank_count, SumOverRanks sum) override;
    void load(Split split, const Dataset& data) override;

    void begin_epoch(std::uint64_t epoch, const std::vector<std::uint64_t>& order) override;
    void train(std::size_t first, std::size_t count, const GradientDone& done) override;
    void update(float rate, const std::uint32_t* committed) override;
    Totals take_totals() override;
    std::int64_t count_correct(std::size_t first, std::size_t stride) override;

    std::size_t running_count() const override { return running_.count(); }
    float* running() const override { return running_.data(); }
    std::vector<float> parameter(std::size_t index) const override;
    std::vector<float> velocity(std::size_t index) const override;
    std::vector<float> running_averages() const override;
    void set_parameter(std::size_t index, const std::vector<float>& values) override;
    void set_velocity(std::size_t index, const std::vector<float>& values) override;
    void set_running_averages(const std::vector<float>& values) override;
    void refresh() override;

private:
    /// All pictures and labels, as bytes.
    struct Pictures {
        gpu::Buffer<unsigned char> pixels;
        gpu::Buffer<unsigned char> labels;
        std::size_t count = 0;
    };
    /// The values that a unit keeps from the forward for the backward pass.
    struct Layer {
        gpu::Buffer<Eight> convolved;
        gpu::Buffer<Eight> output;
        gpu::Buffer<float> kept;
        /// The gradient of the loss by the output. A unit that adds an earlier unit's output has
        /// the same gradient up to that point, and shares its memory.
        Eight* output_gradient = nullptr;
        float* running = nullptr;
    };
    enum class Mode { training, evaluation };

    void make_layers();
    const std::vector<Convolution>& convolutions(std::size_t count);
    void upload_order(const std::vector<std::uint64_t>& order);
    void load_batch(const Pictures& pictures, std::size_t first, std::size_t count, Mode mode);
    void forward(std::size_t count, Mode mode);
    void backward(std::size_t count, const GradientDone& done);
    void backward_unit(std::size_t unit, std::size_t count, const GradientDone& done);
    NormMemory norm_memory(std::size_t unit) const;
    const Eight* input_of(std::size_t unit) const;
    bool is_added_later(std::size_t unit) const;
    std::vector<float> download(const float* from, std::size_t count) const;
    void upload(float* to, const std::vector<float>& values, std::size_t count);

    // The members are in the order of their dependencies.
    Options options_;
    Architecture architecture_;
    gpu::Context context_;
    gpu::Stream stream_;
    gpu::Kernels batch_module_;
    gpu::Kernel<LoadBatch> load_batch_;
    Dnn dnn_;
    NormWorkshop norm_;
    Head head_;
    Weights weights_;
    /// One entry for each batch size that has occurred: usually two.
    std::map<std::size_t, std::vector<Convolution>> convolutions_;

    Pictures train_;
    Pictures test_;
    gpu::Buffer<unsigned> order_;
    std::uint64_t epoch_ = 0;
    gpu::Buffer<Eight> batch_;
    gpu::Buffer<unsigned char> labels_;
    std::vector<Layer> layers_;
    std::vector<gpu::Buffer<Eight>> output_gradients_;
    gpu::Buffer<Eight> convolved_gradient_;
    gpu::Buffer<Bf16> weight_gradient_;
    gpu::Buffer<float> running_;
};

}  // namespace cifar
