// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/plan/worker_env.hpp"
#include "agent/runner/node_address.hpp"
#include "agent/runner/store_door.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/result.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

class RoundStores;  // round_stores.hpp

/// The current or last round of this node's workers: the plan for their start, and the address at
/// which they reach the round's store. Lives on the agent's thread; the references must outlive it.
class CurrentRound {
public:
    struct Calls {
        /// Returns the address of each worker's page, by local rank.
        std::function<std::vector<std::string>(const Agent::SpawnWorkers& order)> begin_channels;
        /// Called with the result of reaching a members-only store, never from inside a function of
        /// this class.
        std::function<void(Agent::StoreChecked)> on_store_checked;
    };

    /// The path of this node's workers to a store.
    struct StorePath {
        /// The port to which they connect, as seen on this node.
        std::uint16_t port = 0;
        /// The name that the store's agent uses for this node's streams; empty: there is no tunnel.
        std::string tunnel;
    };

    /// `error_folder`: see RoundPlan. Its name is secret: no page and no message contains it.
    CurrentRound(
        const AgentConfig& config, const Nonce& error_folder, RoundStores& stores, Calls calls);
    CurrentRound(const CurrentRound&) = delete;
    CurrentRound& operator=(const CurrentRound&) = delete;

    /// `nonce`: the node's nonce. After a failure the plan exists, but the workers cannot reach
    /// their store.
    Result<> begin(const Agent::SpawnWorkers& order, const Nonce& nonce);

    bool has_begun() const { return plan_.has_value(); }
    bool is(int round) const { return plan_ && plan_->assignment.round == round; }
    /// Requires: a round has begun. The plan is valid until the next one begins.
    const RoundPlan& plan() const { return *plan_; }
    int number() const { return plan_->assignment.round; }
    /// `port`: the store's own port, used unless this node has a port of its own for that store.
    StorePath store_path(int round, std::uint16_t port) const;

private:
    Result<std::optional<Endpoint>> enter_store(const Agent::SpawnWorkers& order);

    const AgentConfig& config_;
    Nonce error_folder_;
    RoundStores& stores_;
    Calls calls_;
    NodeAddress address_;
    std::optional<RoundPlan> plan_;
    /// See StorePath.
    std::string tunnel_;
};

}  // namespace ddprun::agent
