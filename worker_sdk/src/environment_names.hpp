// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

/// Every environment variable the SDK reads, spelled once. The agent writes the same names from its
/// own list (agent/plan); only the process tests compare the two.
namespace ddprun::environment {

// torchrun's names, with torchrun's meaning. A launched worker always has the first four.
inline constexpr const char* rank = "RANK";
inline constexpr const char* world_size = "WORLD_SIZE";
inline constexpr const char* master_addr = "MASTER_ADDR";
inline constexpr const char* master_port = "MASTER_PORT";
inline constexpr const char* local_rank = "LOCAL_RANK";
inline constexpr const char* local_world_size = "LOCAL_WORLD_SIZE";
inline constexpr const char* group_rank = "GROUP_RANK";
inline constexpr const char* restart_count = "TORCHELASTIC_RESTART_COUNT";
/// "True": the launcher serves the store; else rank 0 does.
inline constexpr const char* use_agent_store = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr const char* error_file = "TORCHELASTIC_ERROR_FILE";

// ddprun's own names.
inline constexpr const char* round = "DDPRUN_ROUND";
inline constexpr const char* incarnation = "DDPRUN_INCARNATION";
inline constexpr const char* node_addr = "DDPRUN_NODE_ADDR";
/// Seconds between the announcement of a stop and SIGKILL.
inline constexpr const char* shutdown_timeout = "DDPRUN_SHUTDOWN_TIMEOUT";

/// "RANK/STEP": the rank whose state all ranks begin with, and the last step in it.
inline constexpr const char* state_source = "DDPRUN_STATE_SOURCE";

/// The address of this worker's page and its token: "@NAME/TOKEN" (agent/channel/FORMAT.md).
inline constexpr const char* channel = "DDPRUN_CHANNEL";

/// Overrides the identity of this rank's host: one machine can act as several hosts, or several as
/// one.
inline constexpr const char* host_id = "DDPRUN_HOST_ID";

/// Which libnccl.so.2 to use; else it is searched (transports/nccl/library.hpp).
inline constexpr const char* nccl = "DDPRUN_NCCL";
/// NCCL's own: "1" makes every communicator blocking, even if its creator asks for a non-blocking
/// one.
inline constexpr const char* nccl_comm_blocking = "NCCL_COMM_BLOCKING";
/// Set by --share-gpu: several ranks of a node may have the same GPU.
inline constexpr const char* share_gpu = "DDPRUN_SHARE_GPU";
/// The active Python environment, whose packages may contain NCCL.
inline constexpr const char* virtual_env = "VIRTUAL_ENV";
inline constexpr const char* conda_prefix = "CONDA_PREFIX";

// How mpirun (Open MPI; MPICH and Intel MPI) and srun number their processes.
inline constexpr const char* ompi_rank = "OMPI_COMM_WORLD_RANK";
inline constexpr const char* ompi_size = "OMPI_COMM_WORLD_SIZE";
inline constexpr const char* ompi_local_rank = "OMPI_COMM_WORLD_LOCAL_RANK";
inline constexpr const char* ompi_local_size = "OMPI_COMM_WORLD_LOCAL_SIZE";
inline constexpr const char* pmi_rank = "PMI_RANK";
inline constexpr const char* pmi_size = "PMI_SIZE";
inline constexpr const char* pmi_local_rank = "MPI_LOCALRANKID";
inline constexpr const char* pmi_local_size = "MPI_LOCALNRANKS";
inline constexpr const char* slurm_rank = "SLURM_PROCID";
/// Unlike SLURM_NTASKS it is not set in a batch script, which is one process and no rank.
inline constexpr const char* slurm_size = "SLURM_STEP_NUM_TASKS";
inline constexpr const char* slurm_local_rank = "SLURM_LOCALID";
inline constexpr const char* slurm_node = "SLURM_NODEID";
/// "2(x3),1": tasks on each node.
inline constexpr const char* slurm_tasks_per_node = "SLURM_STEP_TASKS_PER_NODE";

/// The value of a variable, or null when it is not set (`getenv`, or a table in a test).
using Lookup = std::function<const char*(const char* name)>;

/// Empty when the variable is not set: no caller needs to distinguish these cases.
inline std::string_view value_of(const Lookup& lookup, const char* name) {
    const char* value = lookup(name);
    return value ? std::string_view{value} : std::string_view{};
}

}  // namespace ddprun::environment
