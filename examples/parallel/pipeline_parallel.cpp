// SPDX-License-Identifier: Apache-2.0
// Pipeline parallel: each rank has some of the layers. A batch passes as micro-batches from rank to
// rank, and gradients come back. After the first few micro-batches every rank alternates one
// forward and one backward (1F1B), so that it keeps few activations. Results have the same bits
// with any number of ranks.
//   ddprun --standalone --nproc-per-node=4 pipeline_parallel
#include "ddprun/error.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/world.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <utility>
#include <vector>

namespace {

constexpr int layers = 4;
constexpr std::size_t width = 16;
constexpr int micro_batches = 16;  // of one sample each

using Values = std::array<float, width>;

float number_at(std::size_t place) {
    return static_cast<float>((place * 2654435761U + 12345) % 2001) / 1000 - 1;
}

/// The target of the first output, for the sample whose inputs begin at this place.
float target_of(std::size_t place) {
    return std::sin(2 * number_at(place) + number_at(place + 1)) / 2;
}

/// out = tanh(W in)
struct Layer {
    std::array<float, width * width> weights;
    std::array<float, width * width> grad{};

    explicit Layer(int number) {
        for (std::size_t i = 0; i < weights.size(); ++i)
            weights[i] = number_at(static_cast<std::size_t>(number) * 1000 + i) / 2;
    }

    void forward(const Values& in, Values& out) const {
        for (std::size_t row = 0; row < width; ++row) {
            float sum = 0;
            for (std::size_t i = 0; i < width; ++i)
                sum += weights[row * width + i] * in[i];
            out[row] = std::tanh(sum);
        }
    }

    /// `error` is the derivative of the loss by `out`, and is replaced by that by `in`.
    void backward(const Values& in, const Values& out, Values& error) {
        Values before{};
        for (std::size_t row = 0; row < width; ++row) {
            const float inner = error[row] * (1 - out[row] * out[row]);
            for (std::size_t i = 0; i < width; ++i) {
                grad[row * width + i] += inner * in[i];
                before[i] += inner * weights[row * width + i];
            }
        }
        error = before;
    }
};

/// One rank's layers, and its state for micro-batches in flight.
class Stage {
public:
    explicit Stage(const ddprun::ProcessGroup& group) : group_(group) {
        const int own = layers / group.size();
        for (int i = 0; i < own; ++i)
            layers_.emplace_back(group.rank() * own + i);
    }

    /// Returns the loss of the batch, on the last stage.
    float step(int number) {
        float loss = 0;
        const int ahead = std::min(group_.size() - group_.rank() - 1, micro_batches);
        const auto place = [&](int i) {
            return 1'000'000 + static_cast<std::size_t>(number * micro_batches + i) * width;
        };
        for (int i = 0; i < micro_batches + ahead; ++i) {
            if (i < micro_batches) forward(place(i));
            if (i >= ahead) loss += backward(place(i - ahead));
        }
        sent_.clear();  // waits for each
        buffers_.clear();
        for (auto& layer : layers_)
            for (std::size_t i = 0; i < layer.weights.size(); ++i)
                layer.weights[i] -= 0.2F * std::exchange(layer.grad[i], 0.0F);
        return loss / micro_batches;
    }

private:
    void send(const Values& values, int to) {
        buffers_.push_back(values);  // a deque: growing it moves no other element
        sent_.push_back(group_.send(buffers_.back().data(), width, to));
    }

    void forward(std::size_t place) {
        auto& values = in_flight_.emplace_back(layers_.size() + 1);
        for (std::size_t i = 0; i < width; ++i)
            values[0][i] = number_at(place + i);
        if (group_.rank() > 0) group_.recv(values[0].data(), width, group_.rank() - 1).wait();
        for (std::size_t i = 0; i < layers_.size(); ++i)
            layers_[i].forward(values[i], values[i + 1]);
        if (group_.rank() + 1 < group_.size()) send(values.back(), group_.rank() + 1);
    }

    /// Processes the oldest micro-batch in flight.
    float backward(std::size_t place) {
        const auto values = std::move(in_flight_.front());
        in_flight_.pop_front();
        const float difference = values.back()[0] - target_of(place);
        Values error{2 * difference / micro_batches};  // of the last layer
        if (group_.rank() + 1 < group_.size())
            group_.recv(error.data(), width, group_.rank() + 1).wait();
        for (std::size_t i = layers_.size(); i-- > 0;)
            layers_[i].backward(values[i], values[i + 1], error);
        if (group_.rank() > 0) send(error, group_.rank() - 1);
        return difference * difference;
    }

    const ddprun::ProcessGroup& group_;
    std::vector<Layer> layers_;
    std::deque<std::vector<Values>> in_flight_;  // the values before and after each layer
    std::deque<Values> buffers_;
    std::vector<ddprun::Work> sent_;
};

}  // namespace

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        if (layers % world.world_size != 0) throw ddprun::UsageError("1, 2 or 4 ranks");
        const auto group = ddprun::ProcessGroup::create(world);
        Stage stage(group);
        for (int step = 0; step < 200; ++step) {
            const float loss = stage.step(step);
            if (world.rank + 1 == world.world_size && step % 20 == 19)
                std::printf("step %d loss %.6f\n", step + 1, loss);
        }
        return 0;
    });
}
