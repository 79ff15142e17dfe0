// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/call_trace.hpp"
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/failure_monitor.hpp"
#include "worker_sdk/src/groups/group_config.hpp"
#include "worker_sdk/src/groups/lane.hpp"
#include "worker_sdk/src/groups/transport.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

namespace ddprun::groups {

/// The implementation of a ddprun_group: a queue of collectives and a thread that opens the
/// transport and then performs them in order; sends and receives each get their own queue and
/// thread at the first such call. These threads block all signals, so handlers run on the program's
/// own threads and a write to a dead peer raises no SIGPIPE.
///
/// Waking a thread takes longer than a small collective in shared memory. So a waiting thread
/// itself performs calls that have not begun, where the transport allows it. For a quick call the
/// group's thread is not even woken: it performs the call only when no thread has waited for it for
/// a millisecond or two. A call that a transport can begin without waiting begins when it is
/// launched; then only its end is waited for.
///
/// The first error is final: all queued and all later calls fail with it. A world of one has
/// neither thread nor transport.
class Group {
public:
    using Clock = std::chrono::steady_clock;
    using Opened = std::variant<std::unique_ptr<Transport>, GroupError>;

    using Settings = GroupSettings;

    /// Runs `open` and connects the transport, on the group's thread, and waits for that; throws
    /// its error. Without `monitor` the group creates one that has no store; without `config` it
    /// has no sub-groups.
    static std::shared_ptr<Group> create(
        Settings settings,
        std::function<Opened()> open,
        std::shared_ptr<FailureMonitor> monitor,
        std::optional<GroupConfig> config = {});
    /// The world of one.
    static std::shared_ptr<Group> create_alone();

    explicit Group(Settings settings);
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    /// Waits for the tickets that were left to it. Requires: no other ticket is in flight (a
    /// ddprun_work keeps its group alive).
    ~Group();

    const Settings& settings() const { return settings_; }

    /// Queues the collective. The ticket is the caller's memory, and must stay valid until `wait`
    /// has returned or thrown. Throws the error of `check`, the group's error, or that of a thread
    /// that cannot be started; then nothing is queued.
    void launch(Collective collective, Ticket& ticket);
    bool is_done(const Ticket& ticket) const;
    /// Returns when the ticket is done, or throws its error; never before. A deadline that passes
    /// aborts the group with Timeout.
    void wait(const Ticket& ticket, std::optional<Clock::time_point> deadline);
    /// Orders later work in the CUDA stream after the ticket's collective, without waiting for it.
    /// Returns false where that is not possible: then `wait`. Throws a usage error, which changes
    /// nothing.
    bool precede(const Ticket& ticket, void* stream);
    /// The caller does not wait for the ticket: the group frees its memory when it is done, and an
    /// error is thrown by the next call. Waits while too many calls are in flight.
    void leave(Ticket& ticket, TicketMemory memory);
    /// Launches it and waits for it.
    void perform(const Collective& collective);
    void abort(GroupError why);
    /// On GPUs, later calls are ordered after the work in that CUDA stream; null: after none.
    void use_stream(void* stream);
    void* stream() const;
    /// The transport, for a caller that bypasses the queue. Null in the world of one on host
    /// memory. Must not be used longer than the group.
    std::shared_ptr<Transport> transport() const;
    /// Makes a call outside the queue once the queue is empty; nothing is launched meanwhile. An
    /// error ends the group and is thrown, as in `wait`.
    void perform_beside_queue(const std::function<Outcome()>& call);
    /// The GPU that holds the buffers; -1: they are in host memory.
    int device() const;
    /// Null when ordinary memory is as good.
    std::shared_ptr<Arena> arena() const;

    /// The configuration for a group of these ranks. Throws UsageError when this rank is not one of
    /// them.
    GroupConfig config_of(const std::vector<int>& ranks);

private:
    void begin(std::unique_lock<std::mutex>& lock, Ticket& ticket, bool is_next);
    Lane& lane_of(const Collective& collective);
    void serve(const std::function<Opened()>& open);
    bool open_transport(const std::function<Opened()>& open);
    void await_opened();
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
    Outcome run_in(
        Transport& transport,
        const Collective& collective,
        std::chrono::milliseconds timeout) const;
    Outcome end_by(const Collective& collective, GroupError error, Transport& transport);
    void write_trace();
    void time_out(std::unique_lock<std::mutex>& lock, const Ticket& ticket);
    void look_for_failure(
        std::unique_lock<std::mutex>& lock, Lane& lane, FailureMonitor::Wait& wait);

    const Settings settings_;
    std::shared_ptr<FailureMonitor> monitor_;
    std::optional<GroupConfig> config_;

    /// Held while a call is launched, or performed outside the queue, so that calls begin in order.
    /// Locked before mutex_.
    std::mutex launch_mutex_;
    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable work_done_;
    LaunchCounts launched_;
    CallTrace trace_;
    bool is_trace_written_ = false;
    std::map<std::vector<int>, int> sub_group_counts_;
    void* stream_ = nullptr;
    std::shared_ptr<Transport> transport_;
    std::optional<GroupError> dead_;
    bool is_open_ = false;
    bool is_closing_ = false;
    std::array<Lane, 3> lanes_;  // last: their threads use everything above
};

}  // namespace ddprun::groups
