// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/nccl/patience.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ddprun::nccl {

/// The hang watchdog, for calls of NCCL or the driver that never return: all other code here polls
/// and never blocks, but a thread that is stuck inside a call cannot poll. A thread checks once a
/// second whether some work's deadline has passed, and then ends the process.
class Overseer {
public:
    using EndProcess = std::function<void(const std::string&)>;

    /// Kinds of work that may run concurrently.
    enum class Work { collective, send, recv, life, steps, launch };

    explicit Overseer(EndProcess end_process);
    Overseer(const Overseer&) = delete;
    Overseer& operator=(const Overseer&) = delete;
    ~Overseer();

    /// While it exists, that work is watched. One at a time of each kind.
    class Watch {
    public:
        Watch(Overseer& overseer, Work work, Clock::time_point last_moment)
            : moment_(overseer.moment_of(work)) {
            moment_ = last_moment.time_since_epoch().count();
        }
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch() { moment_ = none; }

    private:
        std::atomic<Clock::rep>& moment_;
    };

private:
    static constexpr Clock::rep none = 0;

    std::atomic<Clock::rep>& moment_of(Work work) {
        return moments_[static_cast<std::size_t>(work)];
    }
    void look();

    const EndProcess end_process_;
    std::array<std::atomic<Clock::rep>, 6> moments_{};
    std::mutex mutex_;
    std::condition_variable ended_;
    bool is_over_ = false;
    std::thread thread_;
};

}  // namespace ddprun::nccl
