// SPDX-License-Identifier: Apache-2.0
// Data-parallel training of a toy model, y = w x + b, over 64 samples: a sampler gives each rank
// its share, the reducer averages the gradients.
//   ddprun --standalone --nproc-per-node=4 tutorial_toy_ddp
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"

#include <cstdio>

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        ddprun::Reducer model(ddprun::ProcessGroup::create(world), {{"w", 1}, {"b", 1}});
        model.broadcast_parameters();  // all start with rank 0's parameters

        ddprun::DistributedSampler sampler(64, world.world_size, world.rank);
        for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
            sampler.set_epoch(epoch);
            for (const auto sample : sampler.indices()) {
                const float x = static_cast<float>(sample) / 32 - 1;
                const float error = *model.param(0) * x + *model.param(1) - (2 * x - 1);
                *model.grad(1) = error;
                model.mark_ready(1);  // as backward makes them: the last parameter first
                *model.grad(0) = error * x;
                model.mark_ready(0);
                model.step([&] {
                    for (std::size_t i = 0; i < 2; ++i)
                        *model.param(i) -= 0.2F * *model.grad(i);
                });
            }
        }
        model.verify_parameters();  // all ranks hold the same bits
        std::printf("rank %d: y = %.2f x + %.2f\n", world.rank, *model.param(0), *model.param(1));
        return 0;
    });
}
