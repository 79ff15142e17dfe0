// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/store/keyspace.hpp"
#include "rendezvous/store/queues.hpp"
#include "rendezvous/store/waiters.hpp"
#include "rendezvous/wire/message.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::store {

/// One c10d store: keys, queues, and the clients that wait for them. A machine; the store server
/// drives it.
///
///   Received{from, request}   what FORMAT.md says of the request: at most one Reply to `from`,
///                             then StopWaiting to the clients whose waits it ended, longest first;
///                             CloseConnection where the protocol has no other way to refuse
///   Disconnected{from}        its wait and its reservation are dropped
///   DeadlinePassed            queue reservations that are over end, and the next waiter is woken
///
/// The values of replies are borrowed from the store: they are valid until its next event, unless
/// they are copied.
///
/// Requires: requests of one connection come in their order, and none after its CloseConnection or
/// Disconnected.
class Store {
public:
    struct Received {
        ConnectionId from;
        wire::Request request;
        bool operator==(const Received&) const = default;
    };
    struct Disconnected {
        ConnectionId from;
        bool operator==(const Disconnected&) const = default;
    };
    struct DeadlinePassed {
        bool operator==(const DeadlinePassed&) const = default;
    };
    using Event = std::variant<Received, Disconnected, DeadlinePassed>;

    struct Reply {
        ConnectionId to;
        wire::Reply reply;
        bool operator==(const Reply&) const = default;
    };
    struct CloseConnection {
        ConnectionId connection;
        std::string reason;
        bool operator==(const CloseConnection&) const = default;
    };
    using Effect = std::variant<Reply, CloseConnection>;

    /// `max_data_bytes`: a request that would make keys and queues hold more is refused.
    explicit Store(std::size_t max_data_bytes = limits::max_store_data_bytes)
        : max_data_bytes_(max_data_bytes) {}

    void handle(Event&& event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const { return queues_.next_expiry(); }

    // For status pages and logs.
    std::size_t key_count() const { return keys_.size(); }
    std::size_t wait_count() const { return waiters_.size(); }
    /// The size of keys and queues, and of deleted values that are still on their way to a client.
    std::size_t data_bytes() const { return *meter_; }
    /// The memory of all waits; below, of this client's wait.
    std::size_t wait_bytes() const { return waiters_.held_bytes(); }
    std::size_t wait_bytes(ConnectionId client) const { return waiters_.held_bytes(client); }
    std::vector<Waiters::Waiting> waits(std::size_t longest) const {
        return waiters_.list(longest);
    }
    std::optional<Instant> wait_began_at(ConnectionId client) const {
        return waiters_.began_at(client);
    }
    std::optional<Waiters::ForKey> waits_like_that_of(
        ConnectionId client, std::size_t most_clients) const {
        return waiters_.like_that_of(client, most_clients);
    }

private:
    struct Step;

    /// Whether the name exists for CHECK and WAIT: as a key, or as a queue with an element that
    /// this client may take.
    bool exists(std::string_view name, ConnectionId to) const;

    /// How much the request may add to the data.
    std::size_t growth(const wire::Request& request) const;

    std::size_t max_data_bytes_;
    wire::Meter meter_ = std::make_shared<std::size_t>(0);
    Keyspace keys_{meter_};
    Queues queues_{meter_};
    Waiters waiters_;
    std::vector<ConnectionId> completed_;
};

}  // namespace ddprun::store
