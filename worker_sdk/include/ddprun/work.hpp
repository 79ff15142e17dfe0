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
/// thrown. A Work that is not waited for waits in its destructor (and ignores errors: the next call
/// on the group throws them). For one thread at a time.
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
