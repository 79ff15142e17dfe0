// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/current_round.hpp"

#include "agent/plan/output_plan.hpp"
#include "agent/runner/round_stores.hpp"

#include <utility>

namespace ddprun::agent {

CurrentRound::CurrentRound(
    const AgentConfig& config, const Nonce& error_folder, RoundStores& stores, Calls calls)
    : config_(config),
      error_folder_(error_folder),
      stores_(stores),
      calls_(std::move(calls)),
      address_(config.own_name_problem) {}

Result<> CurrentRound::begin(const Agent::SpawnWorkers& order, const Nonce& nonce) {
    const auto& assignment = order.assignment;
    const LogPlace place{
        config_.join.run_id,
        order.incarnation,
        nonce.to_short_string(),
        config_.join.node.host,
        assignment.round,
        assignment.restart_count};
    const auto node_addr = NodeAddress::towards(assignment, order.node_addr);
    const auto local_store = enter_store(order);
    plan_ = RoundPlan{
        assignment,
        config_.join.run_id,
        order.incarnation,
        nonce,
        error_folder_,
        node_addr,
        address_.gloo_interface(node_addr),
        local_store ? *local_store : std::nullopt,
        config_.join.max_restarts,
        config_.shares_store,
        config_.join.node.host,
        log_folder(config_.output, place),
        latest_link_target(config_.output, place),
        config_.join.settings.grace,
        calls_.begin_channels(order)};
    if (!local_store) return local_store.error();
    return {};
}

/// The address at which this node's workers reach the round's store; none: the store's own address.
/// After a failure the workers are not started.
Result<std::optional<Endpoint>> CurrentRound::enter_store(const Agent::SpawnWorkers& order) {
    tunnel_.clear();
    if (!config_.has_members_store()) return std::optional<Endpoint>{};
    const auto& assignment = order.assignment;
    const auto round = assignment.round;
    const auto port = stores_.enter(
        {order.incarnation,
         round,
         {assignment.master_addr, assignment.master_port},
         assignment.group_rank == 0},
        [this, round](StoreDoor::Reached reached) {
            if (is(round)) tunnel_ = std::move(reached.name);
            if (reached.is_first) calls_.on_store_checked({round, std::move(reached.failure)});
        });
    if (!port) return port.error();
    return std::optional{Endpoint{"127.0.0.1", *port}};
}

CurrentRound::StorePath CurrentRound::store_path(int round, std::uint16_t port) const {
    const bool is_own = is(round) && plan_->local_store;
    return {is_own ? plan_->local_store->port : port, tunnel_};
}

}  // namespace ddprun::agent
