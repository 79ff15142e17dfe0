// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/health/xid_action.hpp"
#include "agent/supervise/agent_interface.hpp"
#include "agent/supervise/ending.hpp"
#include "agent/supervise/failure_report.hpp"
#include "agent/supervise/fence.hpp"
#include "agent/supervise/node_round.hpp"
#include "agent/supervise/node_stores.hpp"
#include "agent/supervise/promise.hpp"
#include "agent/supervise/server_link.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// What an agent knows, and one event on its way through it. What is decided of it is in the files
/// `agent_*` here, each with its topic.
namespace ddprun::agent {

enum class AgentPhase : std::uint8_t { joining, starting, running, succeeded, stopping, done };

/// What ends whatever is commanded. A node that leaves alone can still be ordered to end the job.
enum class AgentFate : std::uint8_t { open, node_ends, job_ends };

/// This node is about to be taken away, or may be.
struct Preemption {
    std::optional<NodeNotice> notice;
    /// The last moment for an orderly stop before the end of the allocation, until there is a
    /// notice for that.
    std::optional<Instant> allocation_stop_at;
    /// The workers of this or an earlier round call `should_save`.
    bool has_asking_workers = false;
};

/// The newest totals of the job, for a server that knows nothing of it.
struct KeptGoodput {
    std::string incarnation;
    control::Goodput totals;
    Instant at;
};

struct AgentData {
    AgentConfig config;
    control::Node node;
    std::uint16_t peer_port;
    /// For pauses and new nonces.
    Random& random;
    AgentPhase phase = AgentPhase::joining;
    Instant began_at{};
    Instant phase_began_at{};
    ServerLink link;
    Fence fence;
    Promise promise;
    NodeStores stores;
    /// The current one, or the last one of this node.
    std::optional<NodeRound> round;
    FailureReport::Ends last_ends;  ///< of the last round that is over
    Preemption preemption;
    /// Why the health check is running; none: it is not running.
    std::optional<AgentInterface::CheckHealth::Reason> checking;
    health::XidHistory xids;
    std::optional<NodeLeaving> leaving;
    std::optional<Ending> ending;
    std::optional<KeptGoodput> goodput;
    bool is_lost = false;  ///< to the server, which counts this node no more
    bool is_hosting = false;
    std::string standby_reason;  ///< of the server, while no round includes this node
    std::uint64_t stale_count = 0;

    AgentData(AgentConfig config, control::Node node, std::uint16_t peer_port, Random& random);

    /// The current round's workers, if they are being spawned or not all gone.
    const WorkerGroup* group() const { return round && round->group ? &*round->group : nullptr; }
    bool has_workers() const { return group() != nullptr && !group()->is_over(); }
    bool is_current(int number) const { return round && round->assignment.round == number; }
    /// This node's part of its round is over. Requires: round.
    bool is_ready() const;
    bool has_result() const;
    AgentFate fate() const;
    /// Of how the workers of the current round ended, or else of the last one.
    FailureReport::Ends worker_ends() const;
    /// Empty before a server has welcomed this node.
    std::string incarnation() const;

    /// When this node kills its workers, unless it hears the server.
    std::optional<Instant> fence_ends_at() const;
    /// When an idle node times out.
    std::optional<Instant> times_out_at() const;
    /// Until when a server that is not heard is waited for.
    std::optional<Instant> wait_ends_at() const;
};

/// One event on its way through an agent: its data, the time, and the effects.
struct AgentStep {
    AgentData& agent;
    Instant now;
    std::vector<AgentInterface::Effect>& out;

    void emit(AgentInterface::Effect effect) const { out.push_back(std::move(effect)); }
    /// To the server.
    void send(control::AgentMessage message) const;
    /// The message has no effect.
    void note_stale(std::string what) const;
};

}  // namespace ddprun::agent
