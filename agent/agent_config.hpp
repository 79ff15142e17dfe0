// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/output_plan.hpp"
#include "agent/plan/worker_env.hpp"
#include "agent/report/report_plan.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/tls/secret.hpp"
#include "rendezvous/wire/query.hpp"
#include "rendezvous/witness/etcd_access.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// Where nodes elect the server among themselves (--rdzv-backend=etcd).
struct EtcdPlan {
    std::vector<Endpoint> members;
    /// Of the keys.
    std::string prefix;
    witness::EtcdAccess access = {};
};

/// How the rendezvous server is found, or becomes this process.
struct RendezvousPlan {
    /// Port 0: this node serves on a free port (only with max nodes 1).
    Endpoint endpoint;
    /// `is_host` of --rdzv-conf: force or forbid hosting. Empty: decided from the addresses.
    std::optional<bool> is_host;
    /// Fixed places at a fixed address: node rank 0 serves, and the endpoint is what workers get as
    /// MASTER_ADDR and MASTER_PORT.
    bool is_static = false;
    /// No node serves by its place or address; `endpoint` is the first member of etcd then.
    std::optional<EtcdPlan> etcd = std::nullopt;
};

/// Before this node is taken away all ranks may save one step.
struct PreemptionPlan {
    /// --preempt-signal; 0: none.
    int signal = 0;
    /// --deadline: from the notice until this node is killed.
    std::optional<Duration> deadline = std::nullopt;
    /// --deadline=slurm: how long the allocation lasted when this was resolved.
    std::optional<Duration> time_left = std::nullopt;

    /// The workers are known to call `should_save`, so that a save is waited for before the first
    /// call, too.
    bool is_expected() const { return signal != 0 || deadline || time_left; }
    /// How long a save may last after a notice. With a deadline the workers have their whole grace
    /// after it, else what is left of it: no stop takes longer than without a save.
    Duration window(Duration grace) const {
        return deadline ? std::max(*deadline - grace, Duration{}) : grace / 2;
    }
    /// From a notice until the workers of this node are killed.
    Duration whole(Duration grace) const { return deadline ? window(grace) + grace : grace; }
};

/// Everything one agent needs, resolved and checked by the launcher before the fork.
struct AgentConfig {
    /// What the server gets, as far as it is known before the job: the agent adds its nonce, pid
    /// and ports, and what is in `worker`.
    control::Join join;
    RendezvousPlan rendezvous;
    /// Proved to the server, or by those that join here; without one every node may.
    std::optional<tls::SecretSource> secret;
    /// There is none, and a server for other machines warns of that.
    bool warns_of_no_secret = false;
    /// Passed on to the workers, and not used otherwise.
    std::vector<int> forwarded_signals;
    PreemptionPlan preemption;
    /// A scheduler sends its signals to every process of every node of the job.
    bool is_signalled_as_a_whole = false;
    /// Every listener of ours takes its port from here (--port-range), both ends included.
    std::uint16_t first_port = 0;
    std::uint16_t last_port = 0;
    /// --health-check: a shell command that decides whether this node is fit; empty: none. It may
    /// take `join.settings.health_timeout`.
    std::string health_check;
    /// Where events are written (--event-file); empty: nowhere.
    std::string event_file;
    /// A round's store is for nodes that have the secret; else for every caller that reaches it.
    bool has_members_store() const {
        return join.settings.store_access == control::StoreAccess::members;
    }
    /// TORCH_DISABLE_SHARE_RDZV_TCP_STORE: MASTER_PORT is left to worker rank 0.
    bool shares_store = true;
    /// Which clients our c10d stores accept (--legacy-c10d).
    wire::Accepted accepted = wire::Accepted::current;
    /// Why other nodes cannot reach this one by its own name, which Gloo takes; empty: they can.
    std::string own_name_problem;
    WorkerSpec worker;
    ReportPlan report;
    OutputPlan output;
};

}  // namespace ddprun::agent
