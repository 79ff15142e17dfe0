// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/store/keyspace.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::store {

/// Stores which client waits for which names. A client has at most one wait; a new one replaces it.
///
/// Each missing name of a wait is one place in that name's line, linked both ways, so dropping a
/// wait takes time proportional to the number of its names, however many other waits there are.
/// Clients are reported in the order in which they began to wait.
class Waiters {
public:
    Waiters();
    ~Waiters();
    Waiters(Waiters&&) noexcept;
    Waiters& operator=(Waiters&&) noexcept;

    enum class Purpose {
        /// WAIT: ends when each name has existed at least once since the wait began.
        presence,
        /// BARRIER: ends when the barrier is full or its key is written by something else.
        barrier,
    };

    /// Requires: `missing` is not empty. A name that is listed twice counts twice. If memory runs
    /// out, it throws and there is no wait.
    void begin(
        ConnectionId client, std::vector<std::string> missing, Purpose purpose, Instant since);
    /// True if there was a wait to drop.
    bool cancel(ConnectionId client);

    /// The name was written: appends to `completed` each client that now has all of its names.
    /// Requires: `completed` has room for `size()` more, so that no client is lost for lack of
    /// memory.
    void appeared(std::string_view name, std::vector<ConnectionId>& completed);
    /// As `appeared`, but only for waits for presence: a barrier's own counting must not end the
    /// barrier.
    void appeared_to_waits(std::string_view name, std::vector<ConnectionId>& completed);

    struct Woken {
        ConnectionId client;
        /// The wait has got all its names and has ended.
        bool is_complete = false;
        /// This name was the only one missing when the wait began.
        bool is_sole = false;
    };
    /// The name's queue has an element: gives the name to the client that has waited longest for
    /// it.
    std::optional<Woken> wake_one(std::string_view name);

    std::size_t size() const { return waits_.size(); }
    /// The memory of all waits. A name that many clients wait for is counted once.
    std::size_t held_bytes() const { return held_bytes_; }
    /// The most memory that the wait of this client occupies.
    std::size_t held_bytes(ConnectionId client) const;

    /// A wait, for status pages.
    struct Waiting {
        ConnectionId client;
        std::string first_missing;
        std::size_t missing_count = 0;
        Instant since;
    };
    /// The oldest waits first.
    std::vector<Waiting> list(std::size_t longest) const;

    /// When this client's wait began; none if it does not wait.
    std::optional<Instant> began_at(ConnectionId client) const;

    /// All waits for one key.
    struct ForKey {
        /// The client's own wait, whose first missing key this is.
        Waiting wait;
        std::size_t client_count = 0;
        /// The first of its clients, in order.
        std::vector<ConnectionId> clients;
    };
    /// All waits for the first missing key of this client's wait; none if the client does not wait.
    std::optional<ForKey> like_that_of(ConnectionId client, std::size_t most_clients) const;

private:
    struct Wait;
    struct Line;
    struct Place;

    using Lines = StringMap<std::unique_ptr<Line>>;

    static const Place& first_missing(const Wait& wait);
    static Waiting shown(const Wait& wait);
    Line& line_of(std::string name);
    void end(const Wait& wait);
    void erase(Lines::iterator line);
    /// Takes the place out of its line. Returns true if it was the last place of its wait, which
    /// then has ended.
    bool give(Place& place);
    void give(Place& place, std::vector<ConnectionId>& completed);

    Lines lines_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Wait>> waits_;
    std::uint64_t next_age_ = 0;
    std::size_t held_bytes_ = 0;
};

}  // namespace ddprun::store
