// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/output_plan.hpp"
#include "agent/plan/places.hpp"
#include "agent/plan/worker_env.hpp"
#include "agent/report/report_plan.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/tls/secret.hpp"
#include "rendezvous/wire/query.hpp"
#include "rendezvous/witness/engine_access.hpp"
#include "rendezvous/witness/lease_place.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::agent {

struct EtcdPlan {
    std::vector<Endpoint> members;
    /// The prefix of the keys.
    std::string prefix;
};

/// The job's own nodes keep the record. The first leader is placed as without an election.
struct VotersPlan {
    /// The endpoints of the command line after the first one: there too nodes that start find the
    /// job.
    std::vector<Endpoint> more_places = {};
    /// A `ddprun-rendezvous` that votes too (--rdzv-witness).
    std::optional<Endpoint> witness = std::nullopt;
};

/// The election of the server among the nodes (--rdzv-backend=etcd or k8s, --rdzv-standby).
struct ElectionPlan {
    /// What keeps the record of the election.
    std::variant<EtcdPlan, witness::kubernetes::LeasePlace, VotersPlan> engine;
    witness::EngineAccess access = {};
    /// Reads the certificates and the password or token from their files again; may block. Empty:
    /// there are no files.
    std::function<Result<witness::EngineAccess>()> read_access = {};
    /// --rdzv-conf as it was given, for the command of another node: it contains no password.
    std::string conf = {};

    bool has_voters() const { return std::holds_alternative<VotersPlan>(engine); }
};

/// The word for the engine of an election. Requires: the plan has one outside of the job.
inline const char* by_engine(
    const ElectionPlan& plan, const char* for_etcd, const char* for_kubernetes) {
    return std::holds_alternative<EtcdPlan>(plan.engine) ? for_etcd : for_kubernetes;
}

/// How the rendezvous server is found, or how this process becomes the server.
struct RendezvousPlan {
    /// Port 0: this node serves on a free port (only with max nodes 1).
    Endpoint endpoint;
    /// `is_host` of --rdzv-conf: forces or forbids hosting. None: decided by the addresses.
    std::optional<bool> is_host;
    /// Fixed places at a fixed address: node rank 0 serves, and the endpoint is what workers get as
    /// MASTER_ADDR and MASTER_PORT.
    bool is_static = false;
    /// Servers are elected instead of being placed; `endpoint` is then the first member of etcd, or
    /// the API server of Kubernetes. With voters it is the place of the first leader.
    std::optional<ElectionPlan> election = std::nullopt;

    bool has_voters() const { return election && election->has_voters(); }
    /// Where nodes of the job serve or are to be found: `endpoint`, and with voters more places.
    std::vector<Endpoint> places() const {
        std::vector<Endpoint> all{endpoint};
        if (const auto* plan = voters())
            all.insert(all.end(), plan->more_places.begin(), plan->more_places.end());
        return all;
    }
    /// Null: nodes do not vote.
    const VotersPlan* voters() const {
        return election ? std::get_if<VotersPlan>(&election->engine) : nullptr;
    }
    /// As on the command line: "node1:29400,node2:29400".
    std::string typed_endpoint() const { return describe(places()); }
    /// Servers are never placed: an engine outside of the job is at `endpoint`.
    bool has_outside_engine() const { return election && !election->has_voters(); }
};

/// Before this node is taken away, all ranks may save one step.
struct PreemptionPlan {
    /// --preempt-signal; 0: none.
    int signal = 0;
    /// --deadline: the time from the notice until this node is killed.
    std::optional<Duration> deadline = std::nullopt;
    /// --deadline=slurm: the remaining time of the allocation when this was resolved.
    std::optional<Duration> time_left = std::nullopt;

    /// The workers are known to call `should_save`, so a save is awaited even before the first
    /// call.
    bool is_expected() const { return signal != 0 || deadline || time_left; }
    /// How long a save may last after a notice. With a deadline the workers keep their whole grace
    /// after it; otherwise the save uses up part of the grace, so that no stop takes longer than
    /// without a save.
    Duration window(Duration grace) const {
        return deadline ? std::max(*deadline - grace, Duration{}) : grace / 2;
    }
    /// The time from a notice until the workers of this node are killed.
    Duration whole(Duration grace) const { return deadline ? window(grace) + grace : grace; }
};

/// Everything one agent needs, resolved and checked by the launcher before the fork.
struct AgentConfig {
    /// The join for the server, as far as it is known before the job: the agent adds its nonce, pid
    /// and ports, and the data in `worker`.
    control::Join join;
    RendezvousPlan rendezvous;
    /// Proved to the server, or by nodes that join a server here; none: every node may join.
    std::optional<tls::SecretSource> secret;
    /// There is no secret, and a server that other machines can reach must warn about it.
    bool warns_of_no_secret = false;
    /// Signals that are only forwarded to the workers.
    std::vector<int> forwarded_signals;
    PreemptionPlan preemption;
    /// A scheduler sends its signals to every process of every node of the job.
    bool is_signalled_as_a_whole = false;
    /// All listening ports are taken from this range (--port-range), both ends included.
    std::uint16_t first_port = 0;
    std::uint16_t last_port = 0;
    /// --health-check: a shell command that decides whether this node is fit; empty: none. Its time
    /// limit is `join.settings.health_timeout`.
    std::string health_check;
    /// --health-strict: a check without an answer counts as unfit.
    bool is_health_strict = false;
    /// --xid: the kernel's log is followed for errors of GPUs.
    bool follows_xids = true;
    /// The path for events (--event-file); empty: none.
    std::string event_file;
    /// Whether a round's store serves only nodes that have the secret; else it serves every caller
    /// that reaches it.
    bool has_members_store() const {
        return join.settings.store_access == control::StoreAccess::members;
    }
    /// TORCH_DISABLE_SHARE_RDZV_TCP_STORE: MASTER_PORT is left to worker rank 0.
    bool shares_store = true;
    /// Which clients this agent's c10d stores accept (--legacy-c10d).
    wire::Accepted accepted = wire::Accepted::current;
    /// Why other nodes cannot reach this one by its own host name, which Gloo uses; empty: they
    /// can.
    std::string own_name_problem;
    WorkerSpec worker;
    ReportPlan report;
    OutputPlan output;
};

}  // namespace ddprun::agent
