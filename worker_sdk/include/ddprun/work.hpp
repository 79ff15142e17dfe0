// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/throw_error.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

namespace ddprun {

/// A collective that was launched. Its buffers belong to the group until `wait` has returned or
/// thrown, or in a stream (`wait_in`). A Work that is not waited for waits in its destructor (and
/// ignores errors: the next call on the group throws them). For one thread at a time.
class [[nodiscard]] Work {
public:
    using Clock = std::chrono::steady_clock;

    /// Takes ownership of a work that a C function returned.
    explicit Work(ddprun_work* handle) : handle_(handle) {}
    Work(Work&& other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)),
          failure_(std::exchange(other.failure_, nullptr)) {}
    Work& operator=(Work&& other) noexcept {
        const Work before(std::move(*this));  // waits in its destructor
        handle_ = std::exchange(other.handle_, nullptr);
        failure_ = std::exchange(other.failure_, nullptr);
        return *this;
    }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work() {
        if (handle_) ddprun_work_wait(handle_, 0);
    }

    bool is_done() const { return ddprun_work_is_done(handle_) != 0; }

    /// Waits for the end, at most as long as the group's timeout allows each collective. Throws
    /// PeerLost, Timeout or Mismatch; a second call throws the same error again.
    void wait() { wait_for(0); }

    /// The same with its own deadline. When it passes, the group is aborted and Timeout is thrown:
    /// one collective cannot be cancelled alone. The peers get PeerLost, or the same Timeout, which
    /// names them.
    void wait(Clock::time_point deadline) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        wait_for(std::max<std::int64_t>(left.count(), 1));
    }

    /// On nccl, instead of `wait`: work that is put into `stream` from now on, a cudaStream_t on
    /// the group's device or null for CUDA's default stream, begins after the collective, and may
    /// use its buffers. The host waits only until NCCL has enqueued the call, which for the first
    /// one of a kind connects the ranks, and while more than 16 calls have not ended. This Work is
    /// then done with: `is_done` is true, though the buffers are in use. A group that is destroyed
    /// waits for the calls that have not ended. An error of the collective is thrown by a later
    /// call on the group; what is in the buffers is then undefined, so `wait` for a later call
    /// before results are saved. For messages (send, recv), and on other backends, this is
    /// `wait()`.
    ///
    /// Throws UsageError when the stream is being captured into a graph; the host has waited then.
    void wait_in(void* stream) {
        if (failure_) std::rethrow_exception(failure_);
        if (!handle_) return;
        const int status = ddprun_work_wait_in(std::exchange(handle_, nullptr), stream);
        if (status != DDPRUN_OK) fail(status);
    }

private:
    void wait_for(std::int64_t timeout_ms) {
        if (failure_) std::rethrow_exception(failure_);
        if (!handle_) return;
        const int status = ddprun_work_wait(std::exchange(handle_, nullptr), timeout_ms);
        if (status != DDPRUN_OK) fail(status);
    }

    [[noreturn]] void fail(int status) {
        try {
            throw_last_error(status);
        } catch (...) {
            failure_ = std::current_exception();
            throw;
        }
    }

    ddprun_work* handle_;         // null: waited for, or moved from
    std::exception_ptr failure_;  // what `wait` threw
};

}  // namespace ddprun
