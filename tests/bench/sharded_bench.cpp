// SPDX-License-Identifier: Apache-2.0
// One rank of scripts/bench.sh ddp: `sharded_bench COUNT`, in a launched world. Trains a model of
// COUNT floats with a sharded AdamW; gradients are constants, so that a step only has the cost of
// sharding. Rank 0 prints "step COUNT us", the median, and "memory COUNT kib": the memory of the
// model, its gradients and its state in one rank (PSS, the average of the ranks).
#include "ddprun/sharded_optimizer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t parameters = 32;
constexpr int steps = 15;

double pss_kib() {
    std::ifstream rollup("/proc/self/smaps_rollup");
    for (std::string word; rollup >> word;)
        if (word == "Pss:") {
            double kib = 0;
            rollup >> kib;
            return kib;
        }
    return 0;
}

void step(ddprun::ShardedOptimizer& model) {
    model.zero_gradients();
    for (std::size_t i = 0; i < parameters; ++i)
        model.await_parameter(i);
    for (auto i = parameters; i-- > 0;) {
        float* const gradient = model.grad(i);
        for (std::size_t k = 0; k < model.spec(i).count; ++k)
            gradient[k] += 0.01F;
        model.mark_ready(i);
    }
    model.step(1e-3F);
}

}  // namespace

int main(int argument_count, char** arguments) {
    const std::size_t count =
        argument_count > 1 ? std::strtoul(arguments[1], nullptr, 10) : std::size_t{1} << 20;
    const auto group = ddprun::ProcessGroup::create(ddprun::World::from_environment());
    group.barrier().wait();
    const double before = pss_kib();
    std::vector<ddprun::ParameterSpec> specs;
    for (std::size_t i = 0; i < parameters; ++i)
        specs.push_back({"p" + std::to_string(i), count / parameters});
    ddprun::ShardedOptimizer model(group, specs, ddprun::ShardedOptimizer::Options{});
    model.broadcast_parameters();

    std::vector<double> times;
    for (int i = 0; i < steps; ++i) {
        group.barrier().wait();
        const auto start = Clock::now();
        step(model);
        model.await_parameters();
        times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    group.barrier().wait();
    double memory = pss_kib() - before;
    // The average, since pages shared by ranks are not divided equally among them; also, all ranks
    // are measured while all of them are running.
    group.all_reduce(&memory, 1, ddprun::Op::average).wait();
    std::sort(times.begin(), times.end());
    if (group.rank() == 0) {
        std::printf("step %zu %.3f\n", count, times[times.size() / 2]);
        std::printf("memory %zu %.3f\n", count, memory);
    }
    return 0;
}
