// SPDX-License-Identifier: Apache-2.0
// Tensor, pipeline and data parallel at once. The model is a row of blocks, x + W2 tanh(W1 x). Each
// stage has some of the blocks, and the ranks of a stage divide their hidden units; several such
// models train on different samples. The losses do not depend on the division.
//   ddprun --standalone --nproc-per-node=8 three_ways 2 2   # 2 ranks a block, 2 stages, 2 models
#include "ddprun/error.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/world.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

namespace {
constexpr std::size_t width = 8, hidden = 16, batch = 16;  // micro-batches are one sample each
constexpr int blocks = 4, steps = 200;
constexpr float rate = 0.02F;
using Numbers = std::vector<float>;

float number_at(std::size_t place) {
    return static_cast<float>((place * 2654435761U + 12345) % 2001) / 1000 - 1;
}

float target_of(std::size_t place) {
    return std::sin(2 * number_at(place) + number_at(place + 1));
}

float dot(const float* a, const float* b) {
    return std::inner_product(a, a + width, b, 0.0F);
}

void add(float factor, const float* from, float* to) {
    for (std::size_t i = 0; i < width; ++i)
        to[i] += factor * from[i];
}

/// Some of a block's hidden units; `group` has the ranks with the other units.
struct Block {
    const ddprun::ProcessGroup& group;
    Numbers w1, w2;  // of each unit its inputs; of each unit its outputs
    Numbers w1_grad{}, w2_grad{};

    Block(const ddprun::ProcessGroup& tensor, std::size_t number) : group(tensor) {
        const auto units = hidden / static_cast<std::size_t>(tensor.size());
        const auto first = number * hidden + units * static_cast<std::size_t>(tensor.rank());
        for (std::size_t i = first * width; i < (first + units) * width; ++i) {
            w1.push_back(number_at(i) / 2);
            w2.push_back(number_at(100'000 + i) / 8);
        }
        w1_grad = w2_grad = Numbers(w1.size());
    }

    /// `inner` gets the hidden values, which the backward pass needs. Returns the output.
    Numbers forward(const Numbers& in, Numbers& inner) const {
        Numbers out(width);
        inner.clear();
        for (std::size_t w = 0; w < w1.size(); w += width) {
            inner.push_back(std::tanh(dot(&w1[w], in.data())));
            add(inner.back(), &w2[w], out.data());
        }
        group.all_reduce(out.data(), out.size()).wait();
        add(1, in.data(), out.data());
        return out;
    }

    /// `error` is the derivative of the loss by the output, and is replaced by that by the input.
    void backward(const Numbers& in, const Numbers& inner, Numbers& error) {
        Numbers before(in.size());
        auto value = inner.begin();
        for (std::size_t w = 0; w < w1.size(); w += width, ++value) {
            const float by_sum = dot(error.data(), &w2[w]) * (1 - *value * *value);
            add(*value, error.data(), &w2_grad[w]);
            add(by_sum, in.data(), &w1_grad[w]);
            add(by_sum, &w1[w], before.data());
        }
        group.all_reduce(before.data(), before.size()).wait();
        add(1, before.data(), error.data());
    }

    /// `copies` has the ranks with the same part of the other models.
    void update(const ddprun::ProcessGroup& copies) {
        for (auto [values, grad] : {std::pair{&w1, &w1_grad}, std::pair{&w2, &w2_grad}}) {
            copies.all_reduce(grad->data(), grad->size(), ddprun::Op::average).wait();
            for (std::size_t i = 0; i < values->size(); ++i)
                (*values)[i] -= rate * std::exchange((*grad)[i], 0.0F);
        }
    }
};
}  // namespace

int main(int count, char** arguments) {
    return ddprun::record([&] {
        const auto world = ddprun::World::from_environment();
        const int per_block = count > 1 ? std::atoi(arguments[1]) : 1;
        const int stages = count > 2 ? std::atoi(arguments[2]) : 1;
        if (per_block < 1 || stages < 1 || world.world_size % (per_block * stages) != 0)
            throw ddprun::UsageError("usage: three_ways RANKS_PER_BLOCK STAGES: powers of two");
        const auto group = ddprun::ProcessGroup::create(world);
        const int model = world.rank / (per_block * stages), part = world.rank % per_block;
        const auto tensor = *group.split(world.rank / per_block);
        const auto pipeline = *group.split(model * per_block + part);
        const auto copies = *group.split(world.rank % (per_block * stages));
        const int stage = pipeline.rank();
        const bool is_last = stage + 1 == stages;
        const auto own = static_cast<std::size_t>(blocks / stages);
        std::vector<Block> mine;
        for (std::size_t i = 0; i < own; ++i)
            mine.emplace_back(tensor, static_cast<std::size_t>(stage) * own + i);

        const auto micro_batches = batch / static_cast<std::size_t>(copies.size());
        for (int step = 0; step < steps; ++step) {
            // For each micro-batch: the values before, inside and after each block. First all
            // forward passes, then all backward passes.
            std::vector<std::vector<Numbers>> values(micro_batches, {own + 1, Numbers(width)});
            auto inner = values;
            float loss = 0;
            auto place = static_cast<std::size_t>(step * copies.size() + copies.rank());
            place = 1'000'000 + place * micro_batches * width;  // of the first sample
            for (std::size_t m = 0; m < micro_batches; ++m) {
                auto& row = values[m];
                for (std::size_t i = 0; i < width; ++i)
                    row[0][i] = number_at(place + m * width + i);
                if (stage > 0) pipeline.recv(row[0].data(), width, stage - 1).wait();
                for (std::size_t i = 0; i < own; ++i)
                    row[i + 1] = mine[i].forward(row[i], inner[m][i]);
                if (!is_last) pipeline.send(row[own].data(), width, stage + 1).wait();
            }
            for (std::size_t m = 0; m < micro_batches; ++m) {
                const float difference = values[m].back()[0] - target_of(place + m * width);
                loss += difference * difference / micro_batches;
                Numbers error(width);
                error[0] = 2 * difference / micro_batches;  // of the last stage
                if (!is_last) pipeline.recv(error.data(), width, stage + 1).wait();
                for (auto i = own; i-- > 0;)
                    mine[i].backward(values[m][i], inner[m][i], error);
                if (stage > 0) pipeline.send(error.data(), width, stage - 1).wait();
            }
            for (auto& block : mine)
                block.update(copies);
            copies.all_reduce(&loss, 1, ddprun::Op::average).wait();
            if (is_last && model == 0 && part == 0 && step % 20 == 19)
                std::printf("step %d loss %.5f\n", step + 1, loss);
        }
        return 0;
    });
}
