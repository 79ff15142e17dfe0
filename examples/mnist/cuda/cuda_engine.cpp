// SPDX-License-Identifier: Apache-2.0
// The module that train_mnist opens for --device cuda.
#include "engine.hpp"
#include "gpu/buffer.hpp"
#include "gpu/context.hpp"
#include "gpu/graph.hpp"
#include "gpu/stream.hpp"
#include "mlp.hpp"
#include "network.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mnist::cuda {
namespace {

constexpr std::size_t test_batch = 500;

/// A data set in the GPU's memory.
struct ResidentData {
    gpu::Buffer<unsigned char> pixels;
    gpu::Buffer<unsigned char> labels;
    gpu::Buffer<unsigned> order;

    ResidentData(const Dataset& data, const gpu::Stream& stream)
        : pixels(data.pixels.size()),
          labels(data.labels.size()) {
        pixels.upload(data.pixels.data(), data.pixels.size(), stream);
        labels.upload(data.labels.data(), data.labels.size(), stream);
        stream.wait();
    }

    void set_order(const std::vector<unsigned>& indices, const gpu::Stream& stream) {
        if (order.count() < indices.size()) order = gpu::Buffer<unsigned>{indices.size()};
        order.upload(indices.data(), indices.size(), stream);
        stream.wait();
    }

    Samples samples(const Position* position, std::size_t offset) const {
        return {
            pixels.data(), labels.data(), order.data(), position, static_cast<unsigned>(offset)};
    }
};

class CudaEngine : public Engine {
public:
    CudaEngine(const EngineOptions& options, const Dataset& train, const Dataset& test)
        : context_(options.device),
          train_(train, stream_),
          test_(test, stream_),
          test_count_(test.size()),
          position_(1),
          sums_(1),
          correct_(1),
          network_(
              stream_,
              {options.optimizer,
               options.learning_rate,
               options.precision == Precision::tf32,
               options.seed,
               options.rank}) {
        host_.parameters = laid_out({"parameters"}, parameter_memory_)[0].values;
        host_.moments = laid_out(moments_of(options.optimizer), moment_memory_);
        sums_.zero(stream_);
    }

    void* stream() const override { return stream_.get(); }

    void attach(Exchange exchange) override {
        exchange_ = std::move(exchange);
        network_.attach(exchange_.parameters, exchange_.gradients, exchange_.commit_word);
    }

    const ModelNumbers& numbers() const override { return host_; }

    void fetch() override {
        exchange_.synchronize();
        each([&](float* host, float* device, std::size_t bytes) {
            gpu::download(host, device, bytes, stream_);
        });
    }

    void put() override {
        exchange_.synchronize();
        each([&](float* host, float* device, std::size_t bytes) {
            gpu::upload(device, host, bytes, stream_);
        });
    }

    void begin_epoch(const std::vector<std::uint64_t>& order, std::uint64_t steps) override {
        exchange_.synchronize();
        if (order.size() > train_.order.count()) forget_recorded();
        const Position start{steps, 0, 0};
        position_.upload(&start, 1, stream_);
        train_.set_order({order.begin(), order.end()}, stream_);
    }

    // The first step of each size is executed directly, since libraries initialize in it; the
    // second is recorded, and from then on one call launches a whole step.
    void step(std::size_t batch_size) override {
        if (!network_.has_room(batch_size)) {
            exchange_.synchronize();
            forget_recorded();
        }
        const auto [found, is_first] = steps_.try_emplace(batch_size);
        if (is_first) {
            network_.prepare(batch_size);
            enqueue(batch_size);
            return;
        }
        auto& recorded = found->second;
        if (!recorded) recorded = gpu::Graph::record(stream_, [&] { enqueue(batch_size); });
        exchange_.replay([&] { recorded.launch(stream_); });
    }

    Sums take_sums() override {
        exchange_.synchronize();
        BatchSums sums{};
        sums_.download(&sums, 1, stream_);
        sums_.zero(stream_);
        stream_.wait();
        return {sums.loss, static_cast<double>(sums.correct)};
    }

    std::int64_t count_correct(std::size_t first, std::size_t stride) override {
        exchange_.synchronize();
        std::vector<unsigned> order;
        for (auto next = first; next < test_count_; next += stride)
            order.push_back(static_cast<unsigned>(next));
        if (!network_.has_room(test_batch)) forget_recorded();
        network_.prepare(test_batch);
        test_.set_order(order, stream_);
        correct_.zero(stream_);
        for (std::size_t next = 0; next < order.size(); next += test_batch)
            network_.count_correct(
                test_.samples(nullptr, next),
                std::min(test_batch, order.size() - next),
                correct_.data());
        unsigned correct = 0;
        correct_.download(&correct, 1, stream_);
        stream_.wait();
        return correct;
    }

    std::string memory_use() const override {
        const auto memory = context_.memory_use();
        char text[64];
        std::snprintf(
            text,
            sizeof text,
            ", %.2f of %.2f GB GPU memory in use",
            static_cast<double>(memory.used) / 1e9,
            static_cast<double>(memory.total) / 1e9);
        return text;
    }

private:
    void enqueue(std::size_t batch_size) {
        network_.train(
            train_.samples(position_.data(), 0), batch_size, sums_.data(), exchange_.ready);
        exchange_.step([&] { network_.update(batch_size, position_.data()); });
    }

    /// When memory moves, what was recorded with its address becomes invalid.
    void forget_recorded() { steps_.clear(); }

    /// Calls `copy` with both sides of each parameter and moment, then waits for what it enqueued.
    template <class Copy>
    void each(const Copy& copy) {
        const auto& shapes = Mlp::parameters();
        for (std::size_t p = 0; p < shapes.size(); ++p) {
            const auto bytes = shapes[p].count() * sizeof(float);
            copy(host_.parameters[p], exchange_.parameters[p], bytes);
            for (std::size_t m = 0; m < host_.moments.size(); ++m)
                copy(host_.moments[m].values[p], network_.moments()[m][p], bytes);
        }
        stream_.wait();
    }

    gpu::Context context_;
    gpu::Stream stream_;
    ResidentData train_;
    ResidentData test_;
    std::size_t test_count_;
    gpu::Buffer<Position> position_;
    gpu::Buffer<BatchSums> sums_;
    gpu::Buffer<unsigned> correct_;
    Network network_;
    Exchange exchange_;
    /// The recorded steps by batch size; an empty graph must still be recorded.
    std::map<std::size_t, gpu::Graph> steps_;
    std::vector<float> parameter_memory_;
    std::vector<float> moment_memory_;
    ModelNumbers host_;
};

}  // namespace
}  // namespace mnist::cuda

extern "C" __attribute__((visibility("default"))) mnist::Engine* mnist_make_cuda_engine(
    const mnist::EngineOptions& options, const mnist::Dataset& train, const mnist::Dataset& test) {
    return new mnist::cuda::CudaEngine(options, train, test);
}
