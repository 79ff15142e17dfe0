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
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The data of an agent, and the context of one event. The decisions over this data are in the
/// `agent_*` files here, one per topic.
namespace ddprun::agent {

enum class AgentPhase : std::uint8_t {
    joining,
    starting,
    running,
    succeeded,
    stopping,
    holding,
    done
};

/// The decided end, which no later command takes back. A node that leaves alone can still be
/// ordered to end the job.
enum class AgentFate : std::uint8_t { open, node_ends, job_ends };

/// The node's announced or expected removal.
struct Preemption {
    std::optional<NodeNotice> notice;
    /// The last moment for an orderly stop before the allocation ends. Empty: no end is expected,
    /// or its notice has been given.
    std::optional<Instant> allocation_stop_at;
    /// Whether workers of this or an earlier round have called `should_save`.
    bool has_asking_workers = false;
};

/// The newest totals of the job, sent to a server that has none.
struct KeptGoodput {
    std::string incarnation;
    control::Goodput totals;
    Instant at;
};

struct AgentData {
    AgentConfig config;
    control::Node node;
    std::uint16_t peer_port;
    /// Source of random pauses and new nonces.
    Random& random;
    AgentPhase phase = AgentPhase::joining;
    Instant began_at{};
    Instant phase_began_at{};
    ServerLink link;
    Fence fence;
    Promise promise;
    NodeStores stores;
    /// This node's current or last round.
    std::optional<NodeRound> round;
    FailureReport::Ends last_ends;  ///< the ends of the last completed round
    Preemption preemption;
    /// Why the health check is running; none: it is not running.
    std::optional<AgentInterface::CheckHealth::Reason> checking;
    health::XidHistory xids;
    std::optional<NodeLeaving> leaving;
    std::optional<Ending> ending;
    std::optional<KeptGoodput> goodput;
    /// As the server has sent them since its last welcome. The next server gets both with a resume.
    std::optional<control::Resized> resized;
    std::optional<control::Drained> drained;
    bool is_lost = false;  ///< the server no longer counts this node as a member
    bool is_hosting = false;
    /// Orders of the server that are being performed, by link and id.
    std::map<std::pair<int, std::uint64_t>, control::WorkerOrder> orders;
    std::string standby_reason;  ///< from the server, while no round includes this node
    std::uint64_t stale_count = 0;

    AgentData(AgentConfig config, control::Node node, std::uint16_t peer_port, Random& random);

    /// The workers of the current or last round, which may all have ended. Null: there is no round,
    /// or it has no workers here.
    const WorkerGroup* group() const { return round && round->group ? &*round->group : nullptr; }
    bool has_workers() const { return group() != nullptr && !group()->is_over(); }
    bool is_current(int number) const { return round && round->assignment.round == number; }
    /// The workers that are held for the next round.
    std::vector<control::KeptWorker> kept() const;
    /// This node's part of its round is over. Requires: round.
    bool is_ready() const;
    bool has_result() const;
    AgentFate fate() const;
    /// The ends of the current round's workers; if it has no workers, the ends of the round before.
    FailureReport::Ends worker_ends() const;
    /// Empty before a server has welcomed this node.
    std::string incarnation() const;

    /// When this node kills its workers, unless the server answers earlier.
    std::optional<Instant> fence_ends_at() const;
    /// When an idle node times out.
    std::optional<Instant> times_out_at() const;
    /// Until when this node waits for a server that does not answer.
    std::optional<Instant> wait_ends_at() const;
};

/// One event while an agent handles it: the agent's data, the time, and the effects so far.
struct AgentStep {
    AgentData& agent;
    Instant now;
    std::vector<AgentInterface::Effect>& out;

    void emit(AgentInterface::Effect effect) const { out.push_back(std::move(effect)); }
    /// Sends to the server.
    void send(control::AgentMessage message) const;
    /// Counts and logs a message that is ignored.
    void note_stale(std::string what) const;
};

}  // namespace ddprun::agent
