// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/store/keyspace.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ddprun::store {

/// The named FIFO queues of one store.
///
/// A client pops in two requests, WAIT and QUEUE_POP. So that no other client takes the element in
/// between, it is *reserved* for the client whose WAIT it ended. For other clients the queue is
/// shorter by one. A client holds at most one reservation. It ends with the client's next request
/// (QUEUE_POP of that queue takes the element), its disconnection, or after
/// `limits::queue_reservation`, because a client may also wait without a QUEUE_POP afterwards.
class Queues {
public:
    struct Popped {
        std::int64_t length_before = 0;
        std::optional<wire::SharedText> value;
    };

    /// Big elements are shared with the replies that carry them. `meter` counts all stored bytes.
    explicit Queues(wire::Meter meter) : meter_(std::move(meter)) {}

    /// How much the meter grows at most when a value of this size is pushed.
    std::size_t growth(std::string_view name, std::size_t value_bytes) const;
    /// If memory runs out, `push` and `reserve` throw before anything has changed.
    void push(std::string name, std::string value);
    /// Takes the first element that this client may have, and ends the client's reservation.
    Popped pop(std::string_view name, ConnectionId client);
    /// How many elements this client may have: all that are not reserved for others.
    std::size_t length(std::string_view name, ConnectionId client) const;
    /// How many elements are not reserved.
    std::size_t free_count(std::string_view name) const;

    /// Keeps one free element for this client. Requires: there is one, and the client holds none.
    void reserve(std::string_view name, ConnectionId client, Instant until);
    /// Ends the client's reservation. Returns the name of the queue that has a free element again,
    /// valid until the element is taken.
    std::optional<std::string_view> release(ConnectionId client);
    /// The queue in which this client has reserved an element; null: none. Valid until the next
    /// change.
    const std::string* reserved_by(ConnectionId client) const;

    /// The end of the oldest reservation.
    std::optional<Instant> next_expiry() const;
    /// Ends the oldest reservation if its time is over, and returns the name of its queue.
    std::optional<std::string_view> expire(Instant now);

private:
    struct Queue {
        /// A list: most queues are short, and an empty deque costs half a KiB.
        std::list<wire::SharedText> elements;
        std::size_t reserved_count = 0;
    };
    struct Reservation {
        ConnectionId client;
        /// The name of the queue, which exists while one of its elements is reserved.
        const std::string* name;
        Instant until;
    };
    /// Reservations from the oldest to the newest, which is also the order in which they expire.
    using ByAge = std::map<std::uint64_t, Reservation>;

    std::string_view forget(ByAge::iterator reservation);

    wire::Meter meter_;
    /// Has no empty queues: a reserved element is still in its queue.
    StringMap<Queue> queues_;
    ByAge reservations_;
    std::unordered_map<std::uint64_t, ByAge::iterator> reservation_of_;
    std::uint64_t next_age_ = 0;
};

}  // namespace ddprun::store
