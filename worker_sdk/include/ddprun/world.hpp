// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/throw_error.hpp"

#include <cstdint>
#include <string>

namespace ddprun {

/// The rank whose state all ranks of a round begin with, and the last step in that state.
struct StateSource {
    int rank = 0;
    std::uint64_t step = 0;
};

/// This process's rank among the workers of its round, and the address of their store. A plain
/// value: copy it, print it, build one by hand in a test.
struct World {
    /// Among all workers of the round: 0 to world_size - 1.
    int rank = 0;
    int world_size = 1;
    /// Among the workers of this node: selects the GPU, for example.
    int local_rank = 0;
    int local_world_size = 1;
    /// Which of the round's nodes this is, from 0.
    int group_rank = 0;

    /// Where the round's store listens; empty and 0 without a launcher, and when `store_file` is
    /// used instead.
    std::string master_addr;
    std::uint16_t master_port = 0;

    /// How often the job was restarted after a failure, the same number on all ranks.
    int restart_count = 0;
    /// Number of the current round in this incarnation of the job; grows with every change of the
    /// world.
    int round = 0;
    /// One incarnation of the job's run id; empty under launchers that do not set it.
    std::string incarnation;
    /// The address at which peers reach this node; empty under launchers that do not set it.
    std::string node_addr;

    /// Whether rank 0 serves the store, as in PyTorch when no launcher does. The same on all ranks.
    bool rank_0_hosts_store = false;
    /// The file in which rank 0 writes the address of its store (`file://`); else empty.
    std::string store_file;

    /// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, where the launcher sets them,
    /// LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, TORCHELASTIC_RESTART_COUNT, DDPRUN_ROUND,
    /// DDPRUN_INCARNATION and DDPRUN_NODE_ADDR. Without RANK and WORLD_SIZE the ranks are those of
    /// mpirun or srun, if one of them started this process.
    ///
    /// If none of the first four is set, returns a world of one and prints one line about it to
    /// standard error. If only some of them are set, or a value is invalid, throws UsageError,
    /// which names the variable and what to do.
    static World from_environment() { return from("env://"); }

    /// Accepts the init methods of PyTorch's `init_process_group`:
    ///
    ///   env://                               as `from_environment`
    ///   tcp://HOST:PORT?rank=R&world_size=W  rank 0 serves the store there
    ///   file:///PATH?rank=R&world_size=W     rank 0 serves it on a free port and writes its
    ///                                        address to PATH; PATH is in a folder that all ranks
    ///                                        share
    ///
    /// Without `rank` and `world_size` these come from the environment, as above. A PATH that is a
    /// folder means a file in it. A file that an earlier run left at PATH is ignored.
    static World from(const std::string& init_method) {
        ddprun_world world{};
        world.size = sizeof world;
        throw_if(ddprun_init(init_method.c_str(), &world));
        return from_c(world);
    }

    /// False without a launcher: there is no store to connect to.
    bool is_launched() const { return !master_addr.empty() || !store_file.empty(); }

    /// Conversion from and to the C structure.
    static World from_c(const ddprun_world& world);
    /// Throws UsageError for a text that is longer than the C structure has room for.
    ddprun_world to_c() const;
};

inline World World::from_c(const ddprun_world& from) {
    World world;
    world.rank = from.rank;
    world.world_size = from.world_size;
    world.local_rank = from.local_rank;
    world.local_world_size = from.local_world_size;
    world.group_rank = from.group_rank;
    world.master_addr = from.master_addr;
    world.master_port = static_cast<std::uint16_t>(from.master_port);
    world.restart_count = from.restart_count;
    world.round = from.round;
    world.incarnation = from.incarnation;
    world.node_addr = from.node_addr;
    world.rank_0_hosts_store = from.rank_0_hosts_store != 0;
    world.store_file = from.store_file;
    return world;
}

inline ddprun_world World::to_c() const {
    ddprun_world to{};
    to.size = sizeof to;
    to.rank = rank;
    to.world_size = world_size;
    to.local_rank = local_rank;
    to.local_world_size = local_world_size;
    to.group_rank = group_rank;
    to.master_port = master_port;
    to.restart_count = restart_count;
    to.round = round;
    to.rank_0_hosts_store = rank_0_hosts_store ? 1 : 0;
    const auto copy = [](const std::string& text, char* place, std::size_t room) {
        if (text.size() >= room)
            throw UsageError("a text in a World is too long: " + text.substr(0, 64) + "...");
        text.copy(place, text.size());
    };
    copy(master_addr, to.master_addr, sizeof to.master_addr);
    copy(incarnation, to.incarnation, sizeof to.incarnation);
    copy(node_addr, to.node_addr, sizeof to.node_addr);
    copy(store_file, to.store_file, sizeof to.store_file);
    return to;
}

}  // namespace ddprun
