// SPDX-License-Identifier: Apache-2.0
// A data-parallel training loop in thirty lines: fits y = w x + b to samples of y = 3 x + 1. Each
// rank has other samples. Run it with
//   ddprun --standalone --nproc-per-node=4 thirty_lines
#include "ddprun/process_group.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"

#include <cstdio>
#include <random>

int main() try {
    const auto world = ddprun::World::from_environment();
    auto group = ddprun::ProcessGroup::create(world);
    ddprun::Reducer model(group, {{"w", 1}, {"b", 1}});
    float& w = *model.param(0);
    float& b = *model.param(1);

    std::mt19937 random(static_cast<unsigned>(world.rank));
    std::uniform_real_distribution<float> draw(-1, 1);
    for (int step = 0; step < 200; ++step) {
        const float x = draw(random);
        const float error = w * x + b - (3 * x + 1);
        *model.grad(0) = error * x;
        *model.grad(1) = error;
        model.mark_ready(1);
        model.mark_ready(0);
        model.finish();  // the gradients are now averages over all ranks
        w -= 0.3F * *model.grad(0);
        b -= 0.3F * *model.grad(1);
    }
    std::printf("rank %d of %d: y = %.3f x + %.3f\n", world.rank, world.world_size, w, b);
} catch (const ddprun::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
