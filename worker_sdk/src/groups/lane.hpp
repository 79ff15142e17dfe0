// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

namespace ddprun::groups {

/// One launched collective. Guarded by its group's mutex.
struct Ticket {
    Collective collective;
    bool is_quick = false;
    bool is_done = false;
    Outcome outcome{};
};

/// One of a group's queues: collectives, sends, receives. Its tickets are performed in order, one
/// at a time, by its thread or by who waits for the ticket at the front. Guarded by its group's
/// mutex.
struct Lane {
    std::condition_variable changed;
    std::deque<std::shared_ptr<Ticket>> queue;
    std::optional<Collective> current;
    /// When a connection was first seen broken during `current`.
    std::optional<std::chrono::steady_clock::time_point> broken_since;
    /// The thread looks at the queue once in a while by itself.
    bool is_looking = false;
    std::thread thread;
};

}  // namespace ddprun::groups
