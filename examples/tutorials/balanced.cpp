// SPDX-License-Identifier: Apache-2.0
// Ranks of different speed: after an epoch of equal shares each rank takes samples in proportion to
// the speed that it measured, so that none waits for the slowest. Rank 0 is slowed down here.
//   ddprun --standalone --nproc-per-node=3 tutorial_balanced
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t samples = 480;
constexpr std::uint64_t samples_per_step = 24;

/// Simulates a slow or fast machine.
void compute(const ddprun::World& world) {
    std::this_thread::sleep_for(std::chrono::microseconds(world.rank == 0 ? 2000 : 200));
}

}  // namespace

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        const auto ranks = static_cast<std::uint64_t>(world.world_size);
        const auto own = static_cast<std::size_t>(world.rank);
        const auto group = ddprun::ProcessGroup::create(world);
        // A rank may have no sample left in the last step.
        ddprun::Reducer::Options uneven;
        uneven.uneven_inputs = true;
        ddprun::Reducer model(group, {{"w", 1}}, uneven);

        std::vector<std::uint64_t> shares(ranks, samples_per_step / ranks);
        ddprun::DistributedSampler sampler(samples, world.world_size, world.rank);
        std::vector<float> times_used(samples);
        std::vector<long long> epoch_ms;
        for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
            group.barrier().wait();
            const auto epoch_start = Clock::now();
            sampler.set_epoch(epoch);
            sampler.set_shares(shares);
            const auto mine = sampler.indices();
            Clock::duration busy{};
            for (std::size_t at = 0; at < mine.size(); at += shares[own]) {
                const auto end = std::min<std::size_t>(at + shares[own], mine.size());
                const auto start = Clock::now();
                float sum = 0;
                for (auto i = at; i < end; ++i) {
                    compute(world);
                    sum += *model.param(0) - static_cast<float>(mine[i] % 7);
                    ++times_used[mine[i]];
                }
                busy += Clock::now() - start;  // without the time of waiting for other ranks
                // The sum over all samples of the step, whichever rank had them.
                *model.grad(0) = sum * static_cast<float>(ranks) / samples_per_step;
                model.mark_ready(0);
                model.step([&] { *model.param(0) -= 0.1F * *model.grad(0); });
            }
            model.join();
            epoch_ms.push_back(
                std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - epoch_start)
                    .count());
            const double speed =
                static_cast<double>(mine.size()) / std::chrono::duration<double>(busy).count();
            std::vector<double> speeds(ranks);
            group.all_gather(&speed, speeds.data(), 1).wait();
            shares = ddprun::shares_by_speed(speeds, samples_per_step);
        }

        group.all_reduce(times_used.data(), times_used.size()).wait();
        const bool is_once = std::all_of(
            times_used.begin(), times_used.end(), [](float times) { return times == 2; });
        std::printf(
            "rank %d: a %s share, every sample %s, epochs of %lld and %lld ms\n",
            world.rank,
            shares[own] < samples_per_step / ranks ? "smaller" : "larger",
            is_once ? "once in each epoch" : "another number of times",
            epoch_ms[0],
            epoch_ms[1]);
        return 0;
    });
}
