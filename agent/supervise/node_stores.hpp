// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_interface.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::agent {

/// The worker stores that this node serves: one whose keyspace was never used, for the next round
/// (being opened, or open), and the one of the current round where this node is its first. A
/// keyspace is used in one round only. A plain value, driven by `Agent`.
class NodeStores {
public:
    using Effects = std::vector<AgentInterface::Effect>;

    /// A fresh one, unless there is one or it is being opened.
    void open(Effects& out);
    void on_opened(std::uint16_t port);
    void on_open_failed() { is_opening_ = false; }

    /// The round's store is the fresh one, if this node is the first. Where workers serve the store
    /// themselves, its port is left to them.
    void begin_round(bool is_first, bool is_shared, Effects& out);
    /// The server may have named it to others in a round that was never assigned to this node.
    void discard_fresh(Effects& out);
    void close_all(Effects& out);

    const std::optional<std::uint16_t>& fresh() const { return fresh_; }
    /// What this node brings into a round; 0: nothing.
    std::uint16_t offered() const { return fresh_ ? *fresh_ : used_.value_or(0); }

private:
    void close_used(Effects& out);

    bool is_opening_ = false;
    std::optional<std::uint16_t> fresh_;
    std::optional<std::uint16_t> used_;
};

}  // namespace ddprun::agent
