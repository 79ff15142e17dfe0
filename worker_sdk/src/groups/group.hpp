// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/backend.hpp"
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/founding.hpp"
#include "worker_sdk/src/groups/lane.hpp"
#include "worker_sdk/src/groups/mismatch_watch.hpp"
#include "worker_sdk/src/groups/transport.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

namespace ddprun::groups {

/// What a ddprun_group is inside: a queue of collectives and a thread that opens the transport and
/// then performs them in order; sends and receives have a queue and a thread each from the first of
/// them on. These threads block all signals, so handlers run on the program's own threads and a
/// write to a dead peer raises no SIGPIPE.
///
/// Waking a thread takes longer than a small collective in shared memory. So who waits performs
/// what has not begun yet, where the transport allows it; and for a quick one the group's own
/// thread is not even woken, but takes it when nobody has waited for a millisecond or two. What a
/// transport can begin soon begins when it is launched; then only its end is waited for.
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
        int round = 0;
    };

    /// Runs `open` on the group's thread and waits for it; throws its trouble. `watch` may be null.
    /// Without `founding` the group has no sub-groups.
    static std::shared_ptr<Group> create(
        Settings settings,
        std::function<Opened()> open,
        std::shared_ptr<MismatchWatch> watch,
        std::optional<Founding> founding = {});
    /// The world of one.
    static std::shared_ptr<Group> create_alone();

    explicit Group(Settings settings);
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    /// Requires: no ticket is in flight (a ddprun_work keeps its group alive).
    ~Group();

    const Settings& settings() const { return settings_; }

    /// Queues it. The ticket is the caller's memory until `wait` has returned or thrown. Throws
    /// what `check` says, or the trouble the group died of; then nothing is queued.
    void launch(Collective collective, Ticket& ticket);
    bool is_done(const Ticket& ticket) const;
    /// Returns or throws (the ticket's trouble) when the ticket is done, never before. A deadline
    /// that passes aborts the group with Timeout.
    void wait(const Ticket& ticket, std::optional<Clock::time_point> deadline);
    /// Launches it and waits for it.
    void perform(const Collective& collective);
    void abort(Trouble why);
    /// What is launched from now on, on GPUs, comes after what is in that CUDA stream; null: after
    /// nothing.
    void use_stream(void* stream);
    void* stream() const;
    /// Null where there is no GPU. Lives as long as the group.
    const DeviceAccess* device_access() const;
    /// Makes a call that does not go through the queue, once that is empty; nothing is launched
    /// meanwhile. What goes wrong ends the group and is thrown, as in `wait`.
    void perform_beside_queue(const std::function<Outcome()>& call);
    /// The GPU that buffers are on; -1: they are in the machine's memory.
    int device() const;
    /// Null when any memory will do.
    std::shared_ptr<Arena> arena() const;

    /// How a group of these ranks comes to be. Throws UsageError when this rank is not one of them.
    Founding founding_of(const std::vector<int>& ranks);

private:
    void begin(std::unique_lock<std::mutex>& lock, Ticket& ticket, bool is_next);
    static void wake(Lane& lane);
    Lane& lane_of(const Collective& collective);
    std::uint64_t& count_of(const Collective& collective);
    void serve(const std::function<Opened()>& open);
    bool open_transport(const std::function<Opened()>& open);
    void work_through(Lane& lane);
    bool await_ticket(
        std::unique_lock<std::mutex>& lock,
        Lane& lane,
        std::optional<std::uint64_t>& begun_when_seen);
    bool may_perform(const Lane& lane) const;
    void perform_front(
        std::unique_lock<std::mutex>& lock, Lane& lane, std::chrono::milliseconds timeout);
    bool perform_while_waiting(
        std::unique_lock<std::mutex>& lock,
        const Ticket& ticket,
        std::optional<Clock::time_point> deadline);
    void await_done(const Ticket& ticket, std::optional<Clock::time_point> deadline);
    void finish(Ticket& ticket, Outcome outcome);
    Outcome run(const Ticket& ticket, std::chrono::milliseconds timeout);
    Outcome end_by(const Collective& collective, Trouble trouble, Transport& transport);
    Trouble explain(const Collective& collective, Trouble trouble);
    void give_up(std::unique_lock<std::mutex>& lock, const Ticket& ticket);
    void look_for_mismatch(std::unique_lock<std::mutex>& lock, Lane& lane);
    void look_for_broken_connections(std::unique_lock<std::mutex>& lock, Lane& lane);

    const Settings settings_;
    std::shared_ptr<MismatchWatch> watch_;
    std::optional<Founding> founding_;

    /// Held while one is launched, or performed beside the queue: they begin in their order. Before
    /// mutex_.
    std::mutex launch_mutex_;
    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable work_done_;
    std::map<std::pair<int, int>, std::uint64_t> message_counts_;  // by sender and receiver
    std::map<std::vector<int>, int> sub_group_counts_;
    std::uint64_t launched_count_ = 0;
    void* stream_ = nullptr;
    std::shared_ptr<Transport> transport_;
    std::optional<Trouble> dead_;
    bool is_open_ = false;
    bool is_closing_ = false;
    std::array<Lane, 3> lanes_;  // last: their threads use everything above
};

}  // namespace ddprun::groups
