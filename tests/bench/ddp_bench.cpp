// SPDX-License-Identifier: Apache-2.0
// One rank of scripts/bench.sh ddp: `ddp_bench BATCH`, in a launched world or alone. Trains the
// network of examples/mnist on made-up pictures. Rank 0 prints "plain BATCH us" (a loop without
// other ranks) and "ddp BATCH us", the time of one step each. Both take turns, block by block, so
// that other load of the machine affects both equally. Times are medians.
#include "ddprun/reducer.hpp"
#include "mlp.hpp"
#include "optimizer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t pictures = 2048;
constexpr std::size_t pixels = 784;
constexpr int blocks = 101;
constexpr int steps_per_block = 5;

mnist::Dataset made_up() {
    mnist::Dataset data;
    std::uint32_t state = 1;
    const auto next = [&] { return state = state * 1664525 + 1013904223; };
    data.pixels.resize(pictures * pixels);
    for (auto& pixel : data.pixels)
        pixel = static_cast<std::uint8_t>(next() >> 24);
    for (std::size_t i = 0; i < pictures; ++i)
        data.labels.push_back(static_cast<std::uint8_t>((next() >> 24) % 10));
    return data;
}

std::vector<ddprun::ParameterSpec> specs() {
    std::vector<ddprun::ParameterSpec> all;
    for (const auto& shape : mnist::Mlp::parameters())
        all.push_back({shape.name, shape.count()});
    return all;
}

/// A network with its optimizer and batches, in its own memory or in the reducer's.
struct Trainer {
    Trainer(
        const mnist::Dataset& pictures_,
        mnist::Numbers values,
        mnist::Numbers slopes,
        std::size_t size)
        : data(pictures_),
          parameters(values),
          gradients(slopes),
          model(values, slopes),
          batch(size) {
        model.initialise(1);
    }

    template <class Done, class Finish>
    void step(const Done& done, const Finish& finish) {
        for (auto& index : batch)
            index = next++ % pictures;
        model.train(data, batch.data(), batch.size(), {1, next, 0}, done);
        finish([this] { optimizer.step(parameters, gradients, next); });
    }

    const mnist::Dataset& data;
    mnist::Numbers parameters;
    mnist::Numbers gradients;
    mnist::Mlp model;
    mnist::Optimizer optimizer{mnist::OptimizerKind::sgd, 0.01F};
    std::vector<std::uint64_t> batch;
    std::uint64_t next = 0;
};

struct Times {
    std::vector<double> wall;
    std::vector<double> cpu;

    template <class Step>
    void add_block(const Step& step) {
        const auto start = Clock::now();
        const auto cpu_start = std::clock();
        for (int i = 0; i < steps_per_block; ++i)
            step();
        const std::chrono::duration<double, std::micro> took = Clock::now() - start;
        wall.push_back(took.count() / steps_per_block);
        cpu.push_back(
            static_cast<double>(std::clock() - cpu_start) * 1e6 / CLOCKS_PER_SEC / steps_per_block);
    }
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// The same layout as the reducer's, in memory of the same kind: only the engine differs.
struct PlainMemory {
    explicit PlainMemory(const ddprun::ProcessGroup& group) {
        for (const auto& shape : mnist::Mlp::parameters()) {
            memory.push_back(group.allocate(shape.count() * sizeof(float)));
            views.push_back(static_cast<float*>(memory.back().data()));
        }
    }

    std::vector<ddprun::Memory> memory;
    mnist::Numbers views;
};

}  // namespace

int main(int argument_count, char** arguments) {
    const std::size_t batch = argument_count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 128;
    const auto group = ddprun::ProcessGroup::create(ddprun::World::from_environment());
    const auto data = made_up();

    const PlainMemory values(group);
    const PlainMemory slopes(group);
    Trainer plain(data, values.views, slopes.views, batch);
    ddprun::Reducer reducer(group, specs());
    mnist::Numbers parameters;
    mnist::Numbers gradients;
    for (std::size_t i = 0; i < reducer.parameter_count(); ++i) {
        parameters.push_back(reducer.param(i));
        gradients.push_back(reducer.grad(i));
    }
    Trainer ddp(data, parameters, gradients, batch);
    reducer.broadcast_parameters();

    const auto plain_step = [&] {
        plain.step([](std::size_t) {}, [](const auto& update) { update(); });
    };
    const auto ddp_step = [&] {
        ddp.step(
            [&](std::size_t parameter) { reducer.mark_ready(parameter); },
            [&](const auto& update) { reducer.step(update); });
    };
    Times plain_times;
    Times ddp_times;
    for (int block = 0; block < blocks; ++block) {
        plain_times.add_block(plain_step);
        group.barrier().wait();
        ddp_times.add_block(ddp_step);
    }
    if (group.rank() == 0) {
        std::printf("plain %zu %.3f\n", batch, median(plain_times.wall));
        std::printf("ddp %zu %.3f\n", batch, median(ddp_times.wall));
        std::printf("plain_cpu %zu %.3f\n", batch, median(plain_times.cpu));
        std::printf("ddp_cpu %zu %.3f\n", batch, median(ddp_times.cpu));
    }
    return 0;
}
