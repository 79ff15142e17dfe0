// SPDX-License-Identifier: Apache-2.0
// A model too large for one device, trained data-parallel: each rank holds all of it, its first
// layer on one device and its second on another. Here a "device" is a thread with a queue; with
// CUDA it would be a stream. The reducer handles parameters, on whichever device they are.
//   ddprun --standalone --nproc-per-node=2 tutorial_model_parallel
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"

#include <cstdio>
#include <functional>
#include <future>
#include <thread>

namespace {

/// Performs its tasks on its own thread.
struct Device {
    void run(const std::function<void()>& work) const {
        std::promise<void> done;
        std::thread([&] {
            work();
            done.set_value();
        }).join();
    }
};

}  // namespace

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        const Device first;
        const Device second;
        // y = v * (u * x): u is on the first device, v on the second.
        ddprun::Reducer model(
            ddprun::ProcessGroup::create(world), {{"first.u", 1}, {"second.v", 1}});
        float& u = *model.param(0);
        float& v = *model.param(1);
        u = v = 0.5F;

        for (int step = 0; step < 300; ++step) {
            const float x = static_cast<float>((step * 7 + world.rank * 3) % 10) / 10 + 0.1F;
            float hidden = 0;
            float error = 0;
            first.run([&] { hidden = u * x; });
            second.run([&] {
                error = v * hidden - 3 * x;
                *model.grad(1) = error * hidden;
            });
            model.mark_ready(1);  // on its way to the other ranks while the first device works
            first.run([&] { *model.grad(0) = error * v * x; });
            model.mark_ready(0);
            model.step([&] {
                u -= 0.2F * *model.grad(0);
                v -= 0.2F * *model.grad(1);
            });
        }
        std::printf("rank %d: u * v = %.2f\n", world.rank, u * v);
        return 0;
    });
}
