// SPDX-License-Identifier: Apache-2.0
// Prints this process's rank and the others. Run it with
//   ddprun --standalone --nproc-per-node=4 tutorial_hello_ranks
#include "ddprun/record.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <cstdio>
#include <string>

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        std::printf(
            "hello from rank %d of %d, local rank %d\n",
            world.rank,
            world.world_size,
            world.local_rank);

        // Ranks exchange small values through the store.
        auto store = ddprun::Store::connect(world);
        store.set("greeting/" + std::to_string(world.rank), "from " + std::to_string(world.rank));
        const int next = (world.rank + 1) % world.world_size;
        const auto greeting = store.get("greeting/" + std::to_string(next));
        std::printf("rank %d was greeted %s\n", world.rank, greeting.c_str());
        return 0;
    });
}
