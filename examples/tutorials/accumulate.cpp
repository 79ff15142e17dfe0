// SPDX-License-Identifier: Apache-2.0
// Large batches in small memory: gradients of four small batches add up on each rank, and only the
// last one is reduced.
//   ddprun --standalone --nproc-per-node=2 tutorial_accumulate
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/world.hpp"

#include <cstdio>

namespace {

constexpr int small_batches = 4;

/// Adds the gradient of (w - target)^2 / 2 and marks it as ready.
void backward(ddprun::Reducer& model, float target) {
    *model.grad(0) += (*model.param(0) - target) / small_batches;
    model.mark_ready(0);
}

}  // namespace

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        ddprun::Reducer model(ddprun::ProcessGroup::create(world), {{"w", 1}});
        for (int step = 0; step < 50; ++step) {
            model.zero_gradients();
            for (int batch = 0; batch + 1 < small_batches; ++batch) {
                const auto no_sync = model.no_sync();  // nothing is sent while it exists
                backward(model, static_cast<float>(batch));
                model.finish();
            }
            backward(model, small_batches - 1);
            model.step([&] { *model.param(0) -= 0.5F * *model.grad(0); });
        }
        // The mean of 0, 1, 2 and 3.
        std::printf("rank %d: w = %.2f\n", world.rank, *model.param(0));
        return 0;
    });
}
