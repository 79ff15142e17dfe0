// SPDX-License-Identifier: Apache-2.0
// Tensor parallel combined with data parallel. Two layers, y = W2 relu(W1 x). Each of the ranks
// that divide a model has some rows of W1 and the matching columns of W2, so the sum over these
// ranks is the output of the whole model. Several such models train on different samples and
// average their gradients.
//   ddprun --standalone --nproc-per-node=4 tensor_parallel 2    # 2 ranks divide each of 2 models
#include "ddprun/error.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/world.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t inputs = 8;
constexpr std::size_t hidden = 32;
constexpr std::size_t batch = 32;
constexpr int steps = 200;
constexpr float rate = 0.1F;

using Numbers = std::vector<float>;

/// The same number for the same place on every rank: -1 to 1.
float number_at(std::size_t place) {
    return static_cast<float>((place * 2654435761U + 12345) % 2001) / 1000 - 1;
}

float target_of(const float* x) {
    return std::sin(x[0] + 2 * x[1]) + x[2] * x[3];
}

/// This rank's part of the model: `units` hidden units, from `first` on.
struct Part {
    std::size_t units;
    Numbers w1;  // of each unit its inputs
    Numbers w2;
    Numbers w1_grad;
    Numbers w2_grad;

    Part(std::size_t count, std::size_t first)
        : units(count),
          w1(count * inputs),
          w2(count),
          w1_grad(w1.size()),
          w2_grad(count) {
        for (std::size_t i = 0; i < w1.size(); ++i)
            w1[i] = number_at(first * inputs + i);
        for (std::size_t i = 0; i < units; ++i)
            w2[i] = number_at(100'000 + first + i) / 4;
    }

    void forward(const float* x, float* hidden_values, float& output) const {
        output = 0;
        for (std::size_t unit = 0; unit < units; ++unit) {
            float sum = 0;
            for (std::size_t i = 0; i < inputs; ++i)
                sum += w1[unit * inputs + i] * x[i];
            hidden_values[unit] = sum > 0 ? sum : 0;
            output += w2[unit] * hidden_values[unit];
        }
    }

    /// `error`: the derivative of the loss by the output of the whole model.
    void backward(const float* x, const float* hidden_values, float error) {
        for (std::size_t unit = 0; unit < units; ++unit) {
            w2_grad[unit] += error * hidden_values[unit];
            if (hidden_values[unit] == 0) continue;
            for (std::size_t i = 0; i < inputs; ++i)
                w1_grad[unit * inputs + i] += error * w2[unit] * x[i];
        }
    }

    void update() {
        const auto apply = [](Numbers& values, Numbers& grad) {
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] -= rate * grad[i];
            grad.assign(grad.size(), 0);
        };
        apply(w1, w1_grad);
        apply(w2, w2_grad);
    }
};

}  // namespace

int main(int count, char** arguments) {
    return ddprun::record([&] {
        const auto world = ddprun::World::from_environment();
        const int per_model = count > 1 ? std::atoi(arguments[1]) : world.world_size;
        if (per_model < 1 || world.world_size % per_model != 0 || hidden % per_model != 0)
            throw ddprun::UsageError("the ranks of a model divide the world and the hidden units");
        const auto group = ddprun::ProcessGroup::create(world);
        // Consecutive ranks divide a model; ranks with the same part of different models average.
        const auto model = *group.split(world.rank / per_model);
        const auto copies = *group.split(world.rank % per_model);
        const auto units = hidden / static_cast<std::size_t>(model.size());
        Part part(units, units * static_cast<std::size_t>(model.rank()));

        const auto samples = batch / static_cast<std::size_t>(copies.size());
        Numbers x(samples * inputs);
        Numbers values(samples * units);
        Numbers outputs(samples);
        for (int step = 0; step < steps; ++step) {
            const auto first = static_cast<std::size_t>(step) * batch +
                               static_cast<std::size_t>(copies.rank()) * samples;
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] = number_at(1'000'000 + first * inputs + i);
            for (std::size_t s = 0; s < samples; ++s)
                part.forward(&x[s * inputs], &values[s * units], outputs[s]);
            model.all_reduce(outputs.data(), samples).wait();  // of the whole model

            float loss = 0;
            for (std::size_t s = 0; s < samples; ++s) {
                const float error = outputs[s] - target_of(&x[s * inputs]);
                loss += error * error / samples;
                part.backward(&x[s * inputs], &values[s * units], 2 * error / samples);
            }
            auto first_layer =
                copies.all_reduce(part.w1_grad.data(), part.w1_grad.size(), ddprun::Op::average);
            copies.all_reduce(part.w2_grad.data(), units, ddprun::Op::average).wait();
            first_layer.wait();
            part.update();
            copies.all_reduce(&loss, 1, ddprun::Op::average).wait();
            if (world.rank == 0 && step % 20 == 19)
                std::printf("step %d loss %.4f\n", step + 1, loss);
        }
        return 0;
    });
}
