// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/env_defaults.hpp"
#include "rendezvous/base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The lowest port at which the first node of a Slurm step serves: below the ephemeral range.
inline constexpr std::uint16_t first_slurm_port = 30'000;
inline constexpr int slurm_port_count = 2'700;

/// The Slurm step in which this process is one task: `srun -N2 ddprun train.py`.
struct SlurmStep {
    std::int64_t job = 0;
    std::int64_t step = 0;
    /// How many times Slurm has requeued the job.
    std::string restarts;
    int nodes = 1;
    int tasks = 1;
    /// The index of this node in the step, from 0.
    int node = 0;
    std::string first_host;

    std::string name() const;
    /// The port of node 0: one of `count` ports from `first` on, chosen by the step, so that steps
    /// which share a node seldom collide.
    std::uint16_t port(std::uint16_t first, int count) const;
};

/// Reads SLURM_STEP_*, the only variables which show that srun started one ddprun per task: in a
/// batch script, a single process, the allocation's variables are set as well. None in a worker of
/// another launcher, which has inherited the variables. Fails when a variable cannot be parsed.
Result<std::optional<SlurmStep>> read_slurm_step(const Environment& environment);

/// Whether this process is a task of a Slurm step, which starts one for each place.
bool is_slurm_task(const Environment& environment);

/// Whether Slurm sends a step's signals to every process of it: it does without control groups;
/// with them it signals only the tasks. `own_cgroups`: the kernel's list of this process's groups.
bool signals_every_process(const Environment& environment, std::string_view own_cgroups);

/// "n[001-128,130],gpu-a[7-9]" -> "n001"; empty: not a list of hosts. Grammar: slurm.conf(5) and
/// srun(1), "hostlist".
std::string first_host_of(std::string_view list);

/// Parses SLURM_TOPOLOGY_ADDR by its pattern: "s0.s4.n7" by "switch.switch.node" -> "s0/s4". Empty:
/// Slurm has no switches configured.
std::string switches_of(std::string_view address, std::string_view pattern);

}  // namespace ddprun::launcher
