// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

/// Who this process is among the workers of its round, as the launcher wrote it into the
/// environment. A plain value: copy it, print it, build one by hand in a test.
struct World {
    int rank = 0;
    int world_size = 1;
    int local_rank = 0;
    int local_world_size = 1;
    int group_rank = 0;

    /// Where the round's store listens; empty and 0 in a world that nobody launched.
    std::string master_addr;
    std::uint16_t master_port = 0;

    /// How often the job was restarted after a failure, the same number on all ranks.
    int restart_count = 0;
    /// Numbers the agreed worlds of one incarnation of the job; grows with every change.
    int round = 0;
    /// One life of the job's run id; empty under launchers that do not tell.
    std::string incarnation;
    /// The address under which this node's peers reach it; empty under launchers that do not tell.
    std::string node_addr;

    /// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, where the launcher sets them,
    /// LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, TORCHELASTIC_RESTART_COUNT, DDPRUN_ROUND,
    /// DDPRUN_INCARNATION and DDPRUN_NODE_ADDR.
    ///
    /// None of the first four set: a world of one, said once on standard error. Only some of them,
    /// or a value that cannot be: UsageError, which names the variable and what to do.
    static World from_environment();

    /// False in a world that nobody launched: there is no store to talk to.
    bool is_launched() const { return !master_addr.empty(); }
};

}  // namespace ddprun
