// SPDX-License-Identifier: Apache-2.0
// Ranks with different amounts of data: a rank that has no more data joins, and takes part with
// gradients of zero until all ranks have joined.
//   ddprun --standalone --nproc-per-node=3 tutorial_uneven
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"

#include <cstdio>

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        ddprun::Reducer::Options options;
        options.uneven_inputs = true;
        ddprun::Reducer model(ddprun::ProcessGroup::create(world), {{"w", 1}}, options);

        const int batches = 20 + 10 * world.rank;
        for (int batch = 0; batch < batches; ++batch) {
            *model.grad(0) = *model.param(0) - 5;
            model.mark_ready(0);
            model.step([&] { *model.param(0) -= 0.5F * *model.grad(0); });
        }
        const int last = model.join();  // afterwards all have the parameters of the last active one
        model.verify_parameters();
        std::printf(
            "rank %d: %d batches, w = %.2f as on rank %d\n",
            world.rank,
            batches,
            *model.param(0),
            last);
        return 0;
    });
}
