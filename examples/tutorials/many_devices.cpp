// SPDX-License-Identifier: Apache-2.0
// One process that drives several devices (here: threads), each with a share of the batch. The
// gradients are first added up within the process, then averaged between processes. Programs that
// use all GPUs of a machine work in this way.
//   ddprun --standalone --nproc-per-node=2 tutorial_many_devices
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"

#include <array>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t devices = 3;

}  // namespace

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        ddprun::Reducer model(ddprun::ProcessGroup::create(world), {{"w", 1}});

        for (int step = 0; step < 60; ++step) {
            // Each device works alone; none of them calls the reducer.
            std::array<float, devices> gradients{};
            std::vector<std::thread> threads;
            for (std::size_t device = 0; device < devices; ++device)
                threads.emplace_back([&, device] {
                    const auto place =
                        static_cast<float>(static_cast<std::size_t>(world.rank) * devices + device);
                    gradients[device] = *model.param(0) - place;
                });
            for (auto& thread : threads)
                thread.join();

            float sum = 0;
            for (const float gradient : gradients)
                sum += gradient;
            *model.grad(0) = sum / devices;
            model.mark_ready(0);
            model.step([&] { *model.param(0) -= 0.3F * *model.grad(0); });
        }
        // The mean of 0 ... world_size * devices - 1.
        std::printf(
            "rank %d with %d devices: w = %.2f\n",
            world.rank,
            static_cast<int>(devices),
            *model.param(0));
        return 0;
    });
}
