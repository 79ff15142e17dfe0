// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/desync_detector.hpp"
#include "worker_sdk/src/groups/failure_detector.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace ddprun::groups {

/// A group's FailureDetector, and the one thread that checks processes, queries the store and reads
/// the clock for it. The group and its transports report facts, and query the verdict.
///
/// The first wait that takes long starts the thread, which sleeps while there is none. While calls
/// are quick, nothing here is called and no thread is woken. A verdict is returned only after it is
/// published: a rank that gets it breaks its connections, which its peers notice.
///
/// Any thread.
class FailureMonitor {
public:
    using Clock = std::chrono::steady_clock;
    using Queue = FailureDetector::Queue;
    using Way = FailureDetector::Way;

    struct Settings {
        Way way = Way::memory;
        /// Null: no rank and no agent writes reports.
        std::unique_ptr<DesyncDetector> desync{};
        /// Returns the ranks on this host whose processes have ended. Null when another part
        /// detects them.
        std::function<std::vector<int>()> ended_processes{};
    };

    /// A wait of a thread in this queue.
    struct Wait {
        Queue queue = Queue::group;
        Clock::time_point since{};
        /// The collective that the queue performs; not set when the queue is `group`.
        Collective collective{};
    };

    explicit FailureMonitor(Settings settings);
    FailureMonitor(const FailureMonitor&) = delete;
    FailureMonitor& operator=(const FailureMonitor&) = delete;
    ~FailureMonitor();

    /// Called on the monitor's thread, which blocks signals (aborting may write to a socket that
    /// the peer has closed), when there is a verdict for a call in progress. Set before anything
    /// else is called.
    void at_verdict(std::function<void(const Collective&, const GroupError&)> call) {
        at_verdict_ = std::move(call);
    }
    /// Ends the thread. Requires: no call is being explained. There is no new verdict afterwards.
    void stop();

    /// The error with which waits have to end, if there is one.
    Outcome verdict() const;

    /// Reports that the wait continues. Reasons to end it are checked until it ends or is not
    /// renewed for a moment. Returns the verdict, if there is one.
    Outcome renew(const Wait& wait);
    void end(const Wait& wait);
    /// A connection to some peer has ended. Returns true when all connections must be closed, so
    /// that the call fails.
    bool must_break_connections(const Wait& wait);

    /// Returns why a call failed for which the transport reported `error`. Waits for reports, a few
    /// seconds at most.
    GroupError explain(const Wait& wait, GroupError error, std::vector<int> suspects = {});
    /// The error with which ranks of one host fail on this fact: `ProcessesEnded`, `PeersLate` or
    /// `CallsDiffer`.
    GroupError find(FailureDetector::Event fact);
    /// Ends the group because of this fact: `WaiterTimedOut`, `KeyMissing` or `StoreLost`.
    GroupError decide(FailureDetector::Event fact);
    /// This rank itself aborts the group.
    void note_abort();

private:
    using Lock = std::unique_lock<std::mutex>;
    using Effects = std::vector<FailureDetector::Effect>;
    struct Watched {
        Wait wait;
        /// None until it is decided.
        std::optional<Clock::time_point> expires_at;
    };
    /// A failed call, and the detector's questions about it.
    struct Failure {
        Wait wait;
        Effects asked;
    };

    Effects handle(FailureDetector::Event fact);
    bool has_thread();
    void serve(Lock& lock, const std::function<bool()>& is_over);
    void end_service();
    void look_without_thread(Lock& lock, Clock::time_point now);
    void explain_next(Lock& lock);
    void look(Lock& lock);
    void end_call(Lock& lock, const Wait& wait);
    bool perform_all(Lock& lock, Effects effects, const Wait& wait);
    std::optional<FailureDetector::Event> perform(
        const FailureDetector::Effect& effect, const Collective& collective);
    GroupError await_verdict(Lock& lock);
    void give_out_verdict();
    void drop_expired(Clock::time_point now);
    std::optional<Clock::time_point> next_look() const;

    const Settings settings_;
    std::function<void(const Collective&, const GroupError&)> at_verdict_;
    std::atomic<bool> has_verdict_ = false;

    mutable std::mutex mutex_;  // guards what follows
    FailureDetector detector_;
    /// The detector's verdict, once it is published.
    Outcome verdict_;
    /// True from a report's request until it is written.
    bool is_publishing_ = false;
    std::array<std::optional<Watched>, FailureDetector::queue_count> watched_;
    std::deque<Failure> failures_;  // not processed yet
    Clock::time_point looked_at_{};
    bool is_closing_ = false;
    /// A caller does the thread's work.
    bool is_served_by_caller_ = false;
    std::condition_variable changed_;  // for the thread
    std::condition_variable decided_;  // for callers of `explain`
    std::thread thread_;
};

/// The queue of the group that a collective is in.
FailureDetector::Queue queue_of(const Collective& collective);

}  // namespace ddprun::groups
