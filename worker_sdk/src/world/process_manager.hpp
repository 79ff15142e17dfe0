// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/world/lookup.hpp"

#include <string_view>

namespace ddprun::environment {

/// The names of the variables in which the launcher or process manager passes the ranks.
struct RankNames {
    const char* rank;
    const char* world_size;
    const char* local_rank;
    const char* local_world_size;  ///< null: `tasks_per_node` has it
    const char* group_rank;        ///< null: there is none
    const char* tasks_per_node;
};

/// The launcher's names when one of RANK and WORLD_SIZE is set; else those of mpirun or srun, when
/// one of them started this process; else null.
const RankNames* who_numbered_us(const Lookup& lookup);

bool is_launcher(const RankNames& names);

/// How many tasks Slurm's "2(x3),1" gives to a node; 0 when the text does not contain the node.
int tasks_on_node(std::string_view text, int node);

}  // namespace ddprun::environment
