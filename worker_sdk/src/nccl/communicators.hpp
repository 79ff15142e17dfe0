// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/trouble.hpp"
#include "worker_sdk/src/nccl/nccl_functions.hpp"
#include "worker_sdk/src/nccl/patience.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace ddprun::nccl {

/// NCCL's communicators of one group on this rank, and the rules by which they live.
///
/// All are non-blocking: no call of NCCL's waits for a peer, so each is short, and calls come one
/// at a time (one mutex). What they began is asked for until it is done, until a deadline, or until
/// the group is given up.
///
/// An abort ends all of them at once, in one thread; other calls fail from then on. It has a
/// deadline of its own, after which `end_process` is called: NCCL, or a kernel, is stuck, and
/// nothing in this process can free it. A farewell (finalize, destroy) has a thread and a deadline
/// too, after which it becomes an abort.
///
/// While a CUDA graph lives that contains calls on a communicator, NCCL does not let go of it: an
/// abort makes the kernels leave at once, but does not come back. So where something was captured
/// nobody waits for that for long, and what is left at the end stays.
///
/// Any thread, each with the device as its own (OnDevice).
class Communicators {
public:
    using Comm = abi::Communicator*;
    using EndProcess = std::function<void(const std::string&)>;

    struct Settings {
        std::chrono::milliseconds abort_timeout{};
        EndProcess end_process;
        /// Called before an abort begins: kernels that it ends leave garbage behind.
        std::function<void()> before_abort;
        /// Runs what it is given with the device as this thread's own.
        std::function<void(const std::function<void()>&)> on_device;
    };

    Communicators(const NcclFunctions& nccl, Settings settings);
    Communicators(const Communicators&) = delete;
    Communicators& operator=(const Communicators&) = delete;
    /// Requires: `end` has returned true, or nothing was ever joined.
    ~Communicators();

    /// Ends what is left: in good order where all is well, else by an abort. False: NCCL has not
    /// let go of it, because of a graph, and this object has to stay as long as the process.
    bool end();

    /// Joins the other ranks. `most_ctas`: how much of the GPU it may take; 0 for NCCL's choice.
    std::variant<Comm, groups::Trouble> join(
        std::vector<abi::UniqueId> ids,
        int rank,
        int world_size,
        int most_ctas,
        const Patience& patience);

    /// Parts a communicator's ranks by color, each part in the order of keys. All its ranks, while
    /// nothing is in flight on it. Every rank has a color: where one has none (NCCL_SPLIT_NOCOLOR)
    /// and the split fails, NCCL writes to where its communicator would be, and the process is
    /// gone.
    std::variant<Comm, groups::Trouble> split(
        Comm comm, int color, int key, const Patience& patience);
    /// Takes a part from the Communicators that made it, which has nothing in common with it.
    std::variant<Comm, groups::Trouble> adopt(
        Communicators& from, Comm part, const Patience& patience);
    /// Ends a part, unless it was adopted.
    void drop(Comm part);

    /// Makes calls on one communicator and waits until NCCL has taken them; their work on the
    /// device may not have begun.
    groups::Outcome call(
        Comm comm, const std::function<abi::Result()>& calls, const Patience& patience);

    /// ... without waiting. Before the next: `await_ready`.
    groups::Outcome begin_call(const std::function<abi::Result()>& calls);
    groups::Outcome await_ready(Comm comm, const Patience& patience);

    /// Launches what contains calls made before, a graph. Short.
    groups::Outcome launch(const std::function<groups::Outcome()>& body);

    /// What NCCL has noticed by itself: success, in_progress or an error.
    abi::Result state(Comm comm);
    groups::Trouble trouble_of(abi::Result result);

    /// How long an abort may take: as long as what is on the device before its kernels, at most.
    void wait_for_aborts(std::chrono::milliseconds timeout) { abort_timeout_ = timeout; }
    std::chrono::milliseconds abort_timeout() const { return abort_timeout_; }

    /// From now on calls may be part of a graph.
    void note_capture() { is_captured_ = true; }

    /// Returns when all are ended, or, where something was captured, a moment after their kernels
    /// were told to leave; does not return when that is impossible.
    void abort();
    bool is_aborted() const { return is_aborted_; }

private:
    bool part();
    bool remove(Comm comm);
    bool finalize_all();
    void destroy_all();
    void abort_all();
    bool has_abort_come_back();
    bool is_farewell_over();

    const NcclFunctions& nccl_;
    const Settings settings_;
    std::mutex mutex_;  // guards NCCL's calls, and comms_
    std::vector<Comm> comms_;
    /// NCCL's threads write it until a split is over, or until an abort of the parent is.
    Comm part_ = nullptr;

    std::atomic<std::chrono::milliseconds> abort_timeout_;
    std::atomic<bool> is_captured_ = false;
    std::atomic<bool> is_aborted_ = false;
    std::mutex abort_mutex_;
    std::condition_variable abort_ended_;
    Clock::time_point abort_began_at_;
    bool has_abort_ended_ = false;
    std::thread aborter_;

    std::condition_variable parted_;  // with abort_mutex_
    std::optional<bool> is_clean_;    // set when the farewell is over
    std::thread parter_;
};

}  // namespace ddprun::nccl
