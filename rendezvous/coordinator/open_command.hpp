// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// A command of `ddprunctl` for one job, on a connection of its own.
struct JobCommanded {
    ConnectionId connection;
    control::JobCommand command;
    /// The sender, for the log and for the job's causes (`sender_text`).
    std::string by;
};

/// What became of one order.
struct OrderEnd {
    enum class Kind : std::uint8_t {
        done,
        refused,
        unsent,  ///< its node had no connection
    };
    Kind kind = Kind::done;
    /// From the agent, or why it was not sent.
    std::string text;
};

/// An order to the agent of one node, as part of a command.
struct OpenOrder {
    std::uint64_t id = 0;
    /// The connection on which it was sent. Only an answer on the same one counts: the next server
    /// gives the same ids.
    ConnectionId connection;
    std::string host;
    control::RankRange ranks;
    /// None: there is no answer yet.
    std::optional<OrderEnd> end = std::nullopt;
};

/// A command that waits for the agents that perform it. Pure.
struct OpenCommand {
    JobCommanded commanded;
    /// When the caller is answered in any case.
    Instant ends_at{};
    /// Their ids are consecutive.
    std::vector<OpenOrder> orders = {};
    /// How many of them have no end yet: a job may have tens of thousands of nodes.
    std::size_t open_count = 0;

    control::WorkerOrder::What what() const;
    bool is_complete() const { return open_count == 0; }
    void add(OpenOrder order);
    /// Requires: one of these orders, which has no end.
    void end(OpenOrder& order, OrderEnd with);
    /// The open order to which this is the answer: the same id, connection, kind and ranks. Null:
    /// there is none.
    OpenOrder* find(const control::WorkerAnswer& answer, ConnectionId connection);
    /// The outcome as it is now, with the orders that are not done.
    control::JobCommandAnswer answer() const;
};

/// Why there is no answer to an order.
std::string missing_text(const OpenOrder& order);

}  // namespace ddprun::coordinator
