// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/nccl_functions.hpp"
#include "worker_sdk/src/transports/nccl/polling.hpp"

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

/// The error of a call that an abort has ended.
inline groups::GroupError aborted() {
    return {groups::GroupError::Kind::peer_lost, "aborted"};
}

/// NCCL's communicators of one group on this rank, and the rules of their life cycle.
///
/// All are non-blocking: no NCCL call waits for a peer, so each is short, and calls are serialized
/// (one mutex). Their progress is polled until it is done, until a deadline, or until the group has
/// failed.
///
/// An abort ends all of them at once, in one thread; other calls fail from then on. It has its own
/// deadline, after which the process is ended: NCCL, or a kernel, is stuck, and nothing in this
/// process can free it. A finalize (with destroy) has a thread and a deadline too, after which it
/// becomes an abort.
///
/// While a CUDA graph exists that contains calls on a communicator, NCCL does not free it: an abort
/// makes the kernels leave at once, but does not return. So after a capture no thread waits long
/// for an abort, and a communicator that is left at the end is leaked.
///
/// Any thread that has the device current (OnDevice).
class Communicators {
public:
    using Comm = abi::Communicator*;

    struct Settings {
        std::chrono::milliseconds abort_timeout{};
        /// Called before an abort begins: the kernels that the abort ends leave garbage in the
        /// buffers.
        std::function<void()> before_abort;
        /// Runs a function with the device current on this thread.
        std::function<void(const std::function<void()>&)> on_device;
    };

    Communicators(const NcclFunctions& nccl, Settings settings);
    Communicators(const Communicators&) = delete;
    Communicators& operator=(const Communicators&) = delete;
    /// Requires: `end` has returned true, or nothing was ever joined.
    ~Communicators();

    /// Ends all communicators: by finalize if there was no error, else by an abort. Returns false
    /// when NCCL has not freed them because of a graph: then this object must be kept until the
    /// process ends.
    bool end();

    /// Joins the other ranks. `most_ctas`: how many blocks of the GPU it may use; 0 for NCCL's
    /// choice.
    std::variant<Comm, groups::GroupError> join(
        std::vector<abi::UniqueId> ids,
        int rank,
        int world_size,
        int most_ctas,
        const Deadline& deadline);

    /// Splits a communicator's ranks by color, each part in the order of keys. All its ranks call
    /// it while nothing is in flight on it. Every rank must have a color: when a rank has none
    /// (NCCL_SPLIT_NOCOLOR) and the split fails, NCCL writes to that rank's missing communicator,
    /// and the process crashes.
    std::variant<Comm, groups::GroupError> split(
        Comm comm, int color, int key, const Deadline& deadline);
    /// Takes ownership of a part that another Communicators object made; the two then share
    /// nothing.
    std::variant<Comm, groups::GroupError> adopt(
        Communicators& from, Comm part, const Deadline& deadline);
    /// Ends a part unless it was adopted.
    void drop(Comm part);

    /// Makes calls on one communicator and waits until NCCL has enqueued them; their work on the
    /// device may not have begun.
    groups::Outcome call(
        Comm comm, const std::function<abi::Result()>& calls, const Deadline& deadline);

    /// Like `call`, but without waiting. The next call must be preceded by `await_ready`.
    groups::Outcome begin_call(const std::function<abi::Result()>& calls);
    groups::Outcome await_ready(Comm comm, const Deadline& deadline);

    /// Launches a graph that contains earlier calls. Does not hold the mutex, which an abort needs:
    /// the driver may block a launch until the device has progressed, and after the loss of a peer
    /// only an abort makes it progress. A launch concurrent with an abort is harmless: NCCL keeps
    /// what the graph uses while the graph exists, and kernels of an aborted communicator end at
    /// once.
    groups::Outcome launch(const std::function<groups::Outcome()>& body);

    /// NCCL's asynchronous state: success, in_progress or an error.
    abi::Result state(Comm comm);
    groups::GroupError error_of(abi::Result result);

    /// Sets the deadline of an abort, which may have to wait for other work on the device before
    /// its kernels end.
    void wait_for_aborts(std::chrono::milliseconds timeout) { abort_timeout_ = timeout; }
    std::chrono::milliseconds abort_timeout() const { return abort_timeout_; }

    /// After this, calls may be part of a graph.
    void note_capture() { is_captured_ = true; }

    /// Returns when all communicators are ended. After a capture it returns a moment after their
    /// kernels were requested to leave. Does not return when ending them is impossible.
    void abort();
    bool is_aborted() const { return is_aborted_; }

private:
    bool finalize();
    bool remove(Comm comm);
    bool finalize_all();
    void destroy_all();
    void abort_all();
    bool has_abort_come_back();
    bool is_finalize_over();

    const NcclFunctions& nccl_;
    const Settings settings_;
    std::mutex mutex_;  // guards NCCL's calls, and comms_
    std::vector<Comm> comms_;
    /// NCCL's threads write it until the split is over or an abort of the parent has ended.
    Comm part_ = nullptr;

    std::atomic<std::chrono::milliseconds> abort_timeout_;
    std::atomic<bool> is_captured_ = false;
    std::atomic<bool> is_aborted_ = false;
    std::mutex abort_mutex_;
    std::condition_variable abort_ended_;
    Clock::time_point abort_began_at_;
    bool has_abort_ended_ = false;
    std::thread aborter_;

    std::condition_variable finalized_;  // with abort_mutex_
    std::optional<bool> is_clean_;       // set when the finalize has ended
    std::thread finalizer_;
};

}  // namespace ddprun::nccl
