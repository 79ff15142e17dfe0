// SPDX-License-Identifier: Apache-2.0
// Checkpoints, an announced stop, and resuming: rank 0 saves and the others wait for the save; when
// started again, all load the newest checkpoint. The argument is a folder that all ranks can read.
//   ddprun --standalone --nproc-per-node=2 --max-restarts=3 tutorial_save_and_load saved
#include "ddprun/checkpoint.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/progress.hpp"
#include "ddprun/record.hpp"
#include "ddprun/shared_checkpoint.hpp"
#include "ddprun/stop.hpp"
#include "ddprun/world.hpp"

#include <cstdint>
#include <cstdio>

int main(int count, char** words) {
    return ddprun::record([&] {
        if (count != 2) throw ddprun::UsageError("usage: tutorial_save_and_load FOLDER");
        const auto world = ddprun::World::from_environment();
        const auto group = ddprun::ProcessGroup::create(world);
        const ddprun::CheckpointFolder folder(words[1]);

        std::uint64_t step = 0;
        float parameter = 0;
        const auto found = ddprun::load_newest(folder, group);  // the same on all ranks
        if (found) {
            step = found->checkpoint.step;
            found->checkpoint.copy_to("parameter", &parameter, 1);
        }
        if (world.rank == 0) std::printf("begin at step %d\n", static_cast<int>(step));
        const ddprun::CheckpointRound round(world, found ? &found->checkpoint : nullptr);

        while (step < 100) {
            parameter += 0.5F;  // stands for a training step
            ddprun::report_progress(++step);

            // The ranks notice a stop at different times, so they agree to leave the loop together.
            float stop = ddprun::should_stop() ? 1 : 0;
            group.all_reduce(&stop, 1, ddprun::Op::max).wait();
            if (stop == 0 && step % 25 != 0) continue;
            if (world.rank == 0) {
                ddprun::Checkpoint checkpoint;
                checkpoint.step = step;
                checkpoint.add("parameter", &parameter, 1);
                round.write_to(checkpoint);
                folder.save(checkpoint);
            }
            group.barrier().wait();  // no rank continues before the save is complete
            if (stop != 0) break;
        }
        std::printf("rank %d: step %d, %g\n", world.rank, static_cast<int>(step), parameter);
        return 0;
    });
}
