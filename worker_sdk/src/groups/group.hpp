// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/mismatch_watch.hpp"
#include "worker_sdk/src/groups/transport.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

namespace ddprun::groups {

/// One launched collective. Guarded by its group's mutex.
struct Ticket {
    Collective collective;
    bool is_done = false;
    Outcome outcome;
};

/// What a ProcessGroup is inside: a queue of collectives and the one thread that opens the
/// transport and then performs them in order. That thread blocks all signals, so handlers run on
/// the program's own threads and a write to a dead peer raises no SIGPIPE.
///
/// The first trouble is final: everything queued and everything later fails with it.
/// A world of one has neither thread nor transport.
class Group {
public:
    using Clock = std::chrono::steady_clock;
    using Opened = std::variant<std::unique_ptr<Transport>, Trouble>;

    struct Settings {
        int rank = 0;
        int world_size = 1;
        Backend backend = Backend::loopback;
        std::chrono::milliseconds timeout = std::chrono::minutes(10);
    };

    /// Runs `open` on the group's thread and waits for it; throws its trouble. `watch` may be null.
    static ProcessGroup create(
        Settings settings, std::function<Opened()> open, std::unique_ptr<MismatchWatch> watch);
    /// The world of one.
    static ProcessGroup create_alone();

    explicit Group(Settings settings);
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    /// Requires: no ticket is in flight (a Work keeps its group alive and waits).
    ~Group();

    const Settings& settings() const { return settings_; }

    /// Queues it. Throws what `check` says, or the trouble the group died of.
    std::shared_ptr<Ticket> launch(Collective collective);
    bool is_done(const Ticket& ticket) const;
    /// Throws the ticket's trouble. A deadline that passes aborts the group with Timeout.
    void wait(const Ticket& ticket, std::optional<Clock::time_point> deadline);
    void abort(Trouble why);

private:
    void serve(const std::function<Opened()>& open);
    bool open_transport(const std::function<Opened()>& open);
    std::shared_ptr<Ticket> next_ticket();
    void perform(Ticket& ticket);
    Outcome run(const Collective& collective);
    Trouble explain(const Collective& collective, Trouble trouble);
    void look_for_mismatch(std::unique_lock<std::mutex>& lock);
    void look_for_broken_connections(std::unique_lock<std::mutex>& lock);

    const Settings settings_;
    std::unique_ptr<MismatchWatch> watch_;

    mutable std::mutex mutex_;
    std::condition_variable work_came_;
    std::condition_variable work_done_;
    std::deque<std::shared_ptr<Ticket>> queue_;
    std::optional<Collective> current_;
    /// When a connection was first seen broken during `current_`.
    std::optional<Clock::time_point> broken_since_;
    std::uint64_t launched_count_ = 0;
    std::shared_ptr<Transport> transport_;
    std::optional<Trouble> dead_;
    bool is_open_ = false;
    bool is_closing_ = false;

    std::thread thread_;  // last: it uses everything above
};

}  // namespace ddprun::groups
