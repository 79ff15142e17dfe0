// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "launcher/grammar/from.hpp"
#include "launcher/grammar/options.hpp"
#include "launcher/resolve/cpu_binding.hpp"
#include "launcher/resolve/etcd_options.hpp"
#include "launcher/resolve/network.hpp"
#include "launcher/resolve/output_options.hpp"
#include "launcher/resolve/preemption_options.hpp"
#include "launcher/resolve/restart_options.hpp"
#include "launcher/resolve/security_options.hpp"
#include "launcher/resolve/signal_options.hpp"
#include "launcher/resolve/worker_command.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/log.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Evaluates a command line on this machine: every value with its origin. Pure; the facts about the
/// machine are gathered before (SystemInfo). `--explain` prints a JobSpec, the agent gets its
/// AgentConfig.
namespace ddprun::launcher {

/// Facts about the machine and the process, read once in main.
struct SystemInfo {
    Environment environment;
    /// The path by which ddprun was started, links not followed.
    std::string own_path;
    /// The same path, links followed.
    std::string own_target;
    std::string host_name;
    /// The kernel's list of the control groups of this process.
    std::string own_cgroups;
    int parent_pid = 0;
    /// The kernel's short name of the parent: "bash".
    std::string parent_name;
    int cpu_count = 1;
    /// The number of NVIDIA GPUs of the machine, regardless of CUDA_VISIBLE_DEVICES. It is a
    /// function because counting may need to start a program; empty: none.
    std::function<int()> count_gpus;
    std::vector<InterfaceAddress> interfaces;
    /// A function, because a resolver may take seconds; empty: no name has an address.
    HasAddress has_address;
    /// The text of /etc/hosts. A function because few jobs need it; empty: there is none.
    std::function<std::string()> read_hosts;
    /// The text of a file that an option names; none: it cannot be read, or is too long.
    std::function<std::optional<std::string>(const std::string& path)> read_file;
    /// The address used by a library that listens at this machine's own name: the first address of
    /// that name that this machine has; empty: none; nullopt: unknown, since a worker's resolver
    /// may find addresses that ddprun's does not. As slow as `has_address`.
    std::function<std::optional<std::string>()> own_name_address;
    /// Standard error is a terminal.
    bool has_terminal = false;
    /// Standard input is a terminal.
    bool has_input_terminal = false;
    /// A random id for a job without a given name.
    Nonce fresh_id;
    LookAt look_at;
    ReadTopology read_topology;
};

struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;
};

/// A decision that no option requested; reported before the job starts.
struct Notice {
    log::Level level = log::Level::warning;
    std::string event;
    std::string reason;

    bool operator==(const Notice&) const = default;
};

struct JobSpec {
    From<std::string> run_id;
    /// The number of the job's start, if the scheduler has one; later starts compare greater.
    std::optional<std::string> incarnation;
    From<control::NodeRange> nodes;
    From<int> nproc;
    /// Each worker has access to one GPU, and its LOCAL_RANK is 0.
    From<bool> has_virtual_local_rank;
    From<std::string> role;
    From<std::optional<int>> node_rank;
    From<int> max_restarts;
    From<int> max_losses;
    /// The treatment of a node that joins a running job with free places.
    From<control::LateNodes> late_nodes;
    From<control::Recovery> recovery;
    From<Duration> recovery_timeout;
    /// The time without progress of any rank that counts as a hang; none: hangs are not detected.
    From<std::optional<Duration>> hang_after;
    From<control::OnHang> on_hang;
    /// A shell command that decides whether this node is fit for the job; empty: none.
    From<std::string> health_check;
    From<Duration> health_timeout;
    From<bool> is_health_strict;
    /// Errors of GPUs in the kernel's log are acted on.
    From<bool> follows_xids;
    /// Why no such error would be noticed here; empty: it would be, or this was not checked.
    std::string why_no_xids;
    RestartChoice restarts;
    SignalChoice signals;
    DeadlineChoice deadline;
    /// The scheduler sends its signals to every process of the step.
    bool is_signalled_as_a_whole = false;
    From<std::string> event_file;
    /// Port 0: this node serves on a free port and is the only one.
    From<Endpoint> endpoint;
    /// The ones after it, where nodes elect the server: there too nodes that start find the job.
    std::vector<Endpoint> more_endpoints;
    /// Fixed places: node 0 serves, and the endpoint is the workers' MASTER_ADDR and MASTER_PORT.
    From<bool> is_static;
    From<std::optional<bool>> is_host;
    /// Nodes elect the server among themselves; `endpoint` is the first member of etcd, or the API
    /// server of Kubernetes.
    From<std::optional<agent::ElectionPlan>> election;
    /// Whether the nodes elect another server when the first one is gone.
    From<control::Failover> failover;
    /// A `ddprun-rendezvous` that votes about the server too.
    From<std::optional<Endpoint>> witness;
    EtcdAccessChoice etcd_access;
    /// The folder of the pod's service account, for an election by a Lease.
    std::string service_account;
    From<std::string> local_addr;
    From<PortRange> ports;
    SecretChoice secret;
    /// Which callers the stores of the rounds serve.
    From<control::StoreAccess> store_access;
    From<Duration> join_timeout;
    From<std::optional<Duration>> replacement_timeout;
    From<Duration> last_call_timeout;
    From<Duration> lease;
    From<Duration> grace;
    From<bool> shares_store;
    /// This node's c10d stores serve PyTorch 2.1 too.
    bool has_legacy_c10d = false;
    /// Why other nodes cannot reach this one by its own name; empty: they can, or need not.
    std::string own_name_problem;
    CpuBindingChoice binding;
    WorkerCommand command;
    From<std::optional<agent::Wrapper>> wrapper;
    From<std::optional<agent::Attachment>> attachment;
    /// Processes with finished imports wait for a restart.
    From<bool> is_warm;
    agent::ReportPlan report;
    /// The environment that workers inherit, with ddprun's changes.
    Environment environment;
    /// The variables that ddprun changed, and why.
    std::vector<From<std::string>> environment_changes;
    /// Facts about this node for its messages; the agent adds those of its process.
    control::Node node;
    OutputSpec output;
    std::vector<Notice> notices;

    /// All endpoints of the command line, in its order.
    std::vector<Endpoint> endpoints() const {
        std::vector<Endpoint> all{endpoint.value};
        all.insert(all.end(), more_endpoints.begin(), more_endpoints.end());
        return all;
    }
};

/// Requires: `options` has neither help nor version. On error the code decides the exit code
/// (exit_code.hpp), and the context is the message to show.
Result<JobSpec> resolve(const Options& options, const SystemInfo& system);

agent::AgentConfig to_agent_config(const JobSpec& spec);

/// The level of ddprun's own log; `notice` is set when LOGLEVEL could not be read.
Result<From<log::Level>> log_level(
    const Options& options, const Environment& environment, std::vector<Notice>& notices);

}  // namespace ddprun::launcher
