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

/// The round that this node's workers are in, or were in last: what they are started with, and how
/// they reach its store. Lives on the agent's thread; the references must outlive it.
class CurrentRound {
public:
    struct Calls {
        /// Each worker's way to its page, by local rank. `done_step`: that earlier rounds have
        /// done.
        std::function<std::vector<std::string>(std::optional<std::uint64_t> done_step)>
            begin_channels;
        /// Whether a members-only store can be reached. Never called from inside a function of this
        /// class.
        std::function<void(Agent::StoreChecked)> on_store_checked;
    };

    /// The connections of this node's workers to a store.
    struct StorePath {
        /// Where they lead, as seen here.
        std::uint16_t port = 0;
        /// What the agent that has the store takes this node's streams to come from; empty: there
        /// is no tunnel.
        std::string tunnel;
    };

    /// `error_folder`: RoundPlan; on no page and in no message.
    CurrentRound(
        const AgentConfig& config, const Nonce& error_folder, RoundStores& stores, Calls calls);
    CurrentRound(const CurrentRound&) = delete;
    CurrentRound& operator=(const CurrentRound&) = delete;

    /// `nonce` is the node's. A failure: the plan is there, but the workers could not reach their
    /// store.
    Result<> begin(const Agent::SpawnWorkers& order, const Nonce& nonce);

    bool has_begun() const { return plan_.has_value(); }
    bool is(int round) const { return plan_ && plan_->assignment.round == round; }
    /// Requires: a round has begun. It stays until the next one begins.
    const RoundPlan& plan() const { return *plan_; }
    int number() const { return plan_->assignment.round; }
    /// `port`: where the store of this round is, if nothing else is known.
    StorePath store_path(int round, std::uint16_t port) const;

private:
    Result<std::optional<Endpoint>> enter_store(const Agent::SpawnWorkers& order);

    const AgentConfig& config_;
    Nonce error_folder_;
    RoundStores& stores_;
    Calls calls_;
    NodeAddress address_;
    std::optional<RoundPlan> plan_;
    /// As in StorePath.
    std::string tunnel_;
};

}  // namespace ddprun::agent
