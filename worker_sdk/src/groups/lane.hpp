// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/profiler_range.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace ddprun::groups {

/// Memory that is freed by the function.
using TicketMemory = std::unique_ptr<void, void (*)(void*)>;

/// One launched collective, in the memory of the caller, which waits for it or leaves it to the
/// group. Guarded by its group's mutex.
struct Ticket {
    Ticket() = default;
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    Collective collective{};
    bool has_begun = false;
    bool is_quick = false;
    bool is_done = false;
    Outcome outcome{};
    /// The number of its entry in the group's CallTrace.
    std::uint64_t trace_number = 0;
    ProfilerRange range{};
    /// Its own memory once it is left to the group; freed when it is done.
    TicketMemory memory{nullptr, nullptr};
};

/// One of a group's queues: collectives, sends, receives. Its tickets are performed in order, one
/// at a time, by its thread or by the thread that waits for the ticket at the front. Guarded by its
/// group's mutex.
struct Lane {
    std::condition_variable changed;
    std::deque<Ticket*> queue;
    std::optional<Collective> current;
    /// How many of the queued tickets and the current one had not begun when they were launched.
    int not_begun_count = 0;
    /// How many tickets have left the queue.
    std::uint64_t begun_count = 0;
    /// The thread polls the queue.
    bool is_looking = false;
    std::thread thread;

    /// Wakes the thread for what is queued; for a quick ticket only when it does not poll.
    void wake() {
        if (queue.empty()) return;
        if (!queue.front()->is_quick || !is_looking) changed.notify_one();
    }
};

/// How many calls a group has launched. Guarded by its mutex.
struct LaunchCounts {
    std::uint64_t collectives = 0;
    std::map<std::pair<int, int>, std::uint64_t> messages;  ///< by sender and receiver

    std::uint64_t& of(const Collective& collective) {
        if (!collective.is_point_to_point()) return collectives;
        return messages[{collective.root, collective.receiver}];
    }
};

}  // namespace ddprun::groups
