// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_interface.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::agent {

/// The worker stores that this node serves: a fresh one for the next round (open or being opened),
/// and the current round's store if this node is the first of the round. A keyspace is used in one
/// round only. A plain value, driven by `Agent`.
class NodeStores {
public:
    using Effects = std::vector<AgentInterface::Effect>;

    /// Opens a fresh store, unless one is open or being opened.
    void open(Effects& out);
    void on_opened(std::uint16_t port);
    void on_open_failed() { is_opening_ = false; }

    /// If this node is the first, the fresh store becomes the round's store. If the workers serve
    /// the round's store themselves, the fresh store is closed and its port is left to them.
    void begin_round(bool is_first, bool is_shared, Effects& out);
    /// Closes the fresh store: the server may have named it to other nodes in a round that was
    /// never assigned to this node.
    void discard_fresh(Effects& out);
    void close_all(Effects& out);

    const std::optional<std::uint16_t>& fresh() const { return fresh_; }
    /// The port of the store that this node offers for a round; 0: this node has no store.
    std::uint16_t offered() const { return fresh_ ? *fresh_ : used_.value_or(0); }

private:
    void close_used(Effects& out);

    bool is_opening_ = false;
    std::optional<std::uint16_t> fresh_;
    std::optional<std::uint16_t> used_;
};

}  // namespace ddprun::agent
