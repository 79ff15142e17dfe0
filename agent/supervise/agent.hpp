// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/supervise/agent_data.hpp"
#include "agent/supervise/agent_interface.hpp"
#include "rendezvous/base/random.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// One node of one job: joins, runs its workers of each round, reports how they end, and carries
/// out the server's orders (agent/README.md). Driven by agent_runner (sockets, processes) and
/// tests/sim. Events and effects: AgentInterface.
///
///   joining   --Assignment-->          starting    SpawnWorkers, CheckStore
///   joining   --Signalled-->           joining     Send Leave; done with a result or without
///   starting, running --Signalled, and
///      the workers save before-->      same        Send Notice; leaves when it is over
///   joining   --Lost-->                joining     joins under a new nonce
///   starting  --all spawned-->         running     Send Started
///   running   --all exited 0-->        succeeded   Send Succeeded
///   starting, running --failure-->     stopping    ExplainFailure, then Send Failed; where the
///                                                  round has other ranks, GiveNotice before
///   starting, running --fence-->       stopping    KillSession
///   starting, running, succeeded
///      --Stop, Lost, Signalled-->      stopping    the group's signals
///   stopping  --group ended-->         joining     Send Ready with a fresh store
///   any       --JobResult, Ending-->   stopping, and without workers done: Finish
///
/// Its data is in agent_data.hpp. Each part there makes the decisions of its topic: `ServerLink`
/// those about the connection, `Fence` how long the ranks belong to this node, `WorkerGroup` those
/// about the processes, `FailureReport` which worker failed first. The rest is functions over the
/// data, one file per topic: agent_messages (from the server), agent_reports (to it), agent_round,
/// agent_leave, agent_fence, agent_save, agent_store, agent_hang, agent_health, agent_commands.
class Agent : public AgentInterface {
public:
    using Phase = AgentPhase;
    using Fate = AgentFate;

    /// `random` is used for pauses and new nonces and must outlive the machine.
    Agent(AgentConfig config, control::Node node, std::uint16_t peer_port, Random& random);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    Phase phase() const { return data_.phase; }
    const control::Node& node() const { return data_.node; }
    /// The current round's workers, while they are being spawned or not all have ended.
    const WorkerGroup* group() const { return data_.group(); }
    /// The assignment of the current round, or of this node's last one; null: there was none.
    const control::Assignment* assignment() const {
        return data_.round ? &data_.round->assignment : nullptr;
    }
    /// The number of the job's nodes: as started, or as a command has set it.
    const control::NodeRange& nodes() const {
        return data_.resized ? data_.resized->nodes : data_.config.join.nodes;
    }
    /// Empty before a server has welcomed this node.
    std::string incarnation() const { return data_.incarnation(); }
    /// Why this node stops, or what it waits for; may be empty.
    std::string reason() const;
    /// The server counts this node as a member, and the connection to it is open.
    bool is_connected() const { return data_.link.is_admitted(); }
    /// The protocol version in use on the current connection.
    int server_version() const { return data_.link.version(); }
    Fate fate() const { return data_.fate(); }
    Instant began_at() const { return data_.began_at; }
    Instant phase_began_at() const { return data_.phase_began_at; }
    /// The number of ignored messages: they were about old rounds, or not valid in the current
    /// state.
    std::uint64_t stale_count() const { return data_.stale_count; }

private:
    AgentData data_;
};

std::string_view name_of(Agent::Phase phase);

}  // namespace ddprun::agent
