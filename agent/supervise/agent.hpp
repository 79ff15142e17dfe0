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
///   joining   --Signalled-->           joining     Send Leave; done, with or without a result
///   starting, running --Signalled, if
///      the workers can save-->         same        Send Notice; leaves after the notice
///   joining   --Lost-->                joining     joins under a new nonce
///   starting  --all spawned-->         running     Send Started
///   running   --all exited 0-->        succeeded   Send Succeeded
///   starting, running --failure-->     stopping    ExplainFailure, then Send Failed; GiveNotice
///                                                  before, if the round has other ranks
///   starting, running --fence-->       stopping    KillSession
///   starting, running, succeeded
///      --Stop, Lost, Signalled-->      stopping    the group's signals
///   stopping  --group ended-->         joining     Send Ready with a fresh store
///   stopping  --group held-->          holding     Send Ready, with the held workers
///   holding   --Assignment-->          starting    SpawnWorkers: held ones are kept
///   holding   --Stop, Signalled,
///      fence-->                        stopping    the group's signals
///   any       --JobResult, Ending-->   stopping, and without workers done: Finish
///
/// The data is in agent_data.hpp. Each part there decides about one topic: `ServerLink` about the
/// connection, `Fence` about how long the ranks belong to this node, `WorkerGroup` about the
/// processes, `FailureReport` about which worker failed first. Functions over the data make all
/// other decisions, one file per topic: agent_messages (from the server), agent_reports (to the
/// server), agent_round, agent_leave, agent_fence, agent_save, agent_store, agent_hang,
/// agent_health, agent_commands.
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
    /// The workers of the current or last round, which may all have ended. Null: there is no round,
    /// or it has no workers here.
    const WorkerGroup* group() const { return data_.group(); }
    /// The assignment of the current or last round; null: there is no round.
    const control::Assignment* assignment() const {
        return data_.round ? &data_.round->assignment : nullptr;
    }
    /// The number of nodes of the job: as given at its start, or as set by the newest command.
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
    /// The number of ignored messages: about old rounds, or not valid in the state of that time.
    std::uint64_t stale_count() const { return data_.stale_count; }

private:
    AgentData data_;
};

std::string_view name_of(Agent::Phase phase);

}  // namespace ddprun::agent
