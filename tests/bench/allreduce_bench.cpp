// SPDX-License-Identifier: Apache-2.0
// One rank of scripts/bench.sh allreduce: `allreduce_bench BYTES...`, in a launched world. Rank 0
// prints a line for each measurement: "floor BYTES us", "allocated BYTES us", "plain BYTES us",
// "create ms". Times are medians; a repetition takes as long as its slowest rank.
#include "ddprun/process_group.hpp"
#include "worker_sdk/src/groups/reduction.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct Bench {
    ddprun::ProcessGroup group;

    void print(const std::string& what, std::size_t bytes, double us) const {
        if (group.rank() == 0) std::printf("%s %zu %.3f\n", what.c_str(), bytes, us);
    }

    /// Small ones are timed many at a time: the clock itself takes a part of a microsecond.
    double measure(std::size_t bytes, const std::function<void()>& once) const {
        const std::size_t at_a_time = bytes <= 64 * 1024 ? 200 : 1;
        const std::size_t repetitions = bytes >= std::size_t{16} << 20 ? 15 : 50;
        std::vector<double> times;
        for (std::size_t i = 0; i < repetitions + 3; ++i) {
            group.barrier().wait();
            const auto start = Clock::now();
            for (std::size_t k = 0; k < at_a_time; ++k)
                once();
            auto time = us_since(start) / static_cast<double>(at_a_time);
            group.all_reduce(&time, 1, ddprun::Op::max).wait();
            if (i >= 3) times.push_back(time);  // the first ones touch the memory
        }
        return median(times);
    }

    /// The time of the same additions and stores when each rank has its part to itself and none
    /// waits.
    void floor(std::size_t bytes) const {
        const auto ranks = static_cast<std::size_t>(group.size());
        const auto count = bytes / sizeof(float) / ranks;
        std::vector<std::unique_ptr<float[]>> buffers;
        std::vector<std::byte*> targets;
        for (std::size_t i = 0; i < ranks; ++i) {
            buffers.push_back(std::make_unique<float[]>(count + 1));
            targets.push_back(reinterpret_cast<std::byte*>(buffers.back().get()));
        }
        const std::vector<const std::byte*> sources(targets.begin(), targets.end());
        print("floor", bytes, measure(bytes, [&] {
                  ddprun::groups::reduce_all(
                      ddprun::ElementType::float32, ddprun::Op::sum, sources, targets, count);
              }));
    }

    void all_reduce(const std::string& name, std::size_t bytes, float* values) const {
        const auto count = bytes / sizeof(float);
        std::fill_n(values, count, 0.0F);
        print(name, bytes, measure(bytes, [&] { group.all_reduce(values, count).wait(); }));
    }
};

}  // namespace

int main(int argument_count, char** arguments) {
    const auto world = ddprun::World::from_environment();
    const auto store = ddprun::Store::connect(world);
    const auto start = Clock::now();
    Bench bench{ddprun::ProcessGroup::create(world, store)};
    bench.print("create", 0, us_since(start));
    for (int i = 1; i < argument_count; ++i) {
        const auto bytes = static_cast<std::size_t>(std::atoll(arguments[i]));
        bench.floor(bytes);
        const auto memory = bench.group.allocate(bytes);
        bench.all_reduce("allocated", bytes, static_cast<float*>(memory.data()));
        const auto plain = std::make_unique<float[]>(bytes / sizeof(float));
        bench.all_reduce("plain", bytes, plain.get());
    }
}
