// SPDX-License-Identifier: Apache-2.0
// The basic collective: each rank has numbers, and afterwards all ranks have their sum.
//   ddprun --standalone --nproc-per-node=4 tutorial_all_reduce
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/world.hpp"

#include <cstdio>

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        const auto group = ddprun::ProcessGroup::create(world);

        // Any memory can be used; the group's memory saves copies.
        const std::size_t count = 1000;
        const auto memory = group.allocate(count * sizeof(float));
        auto* numbers = static_cast<float*>(memory.data());
        for (std::size_t i = 0; i < count; ++i)
            numbers[i] = static_cast<float>(world.rank + 1);

        // Runs concurrently with this thread, which waits for it below.
        auto work = group.all_reduce(numbers, count);
        work.wait();

        float largest = static_cast<float>(world.rank);
        group.all_reduce(&largest, 1, ddprun::Op::max).wait();
        std::printf("rank %d: sum %g, largest rank %g\n", world.rank, numbers[0], largest);
        return 0;
    });
}
