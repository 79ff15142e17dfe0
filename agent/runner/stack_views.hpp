// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"
#include "agent/runner/blocking_thread.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/command.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>

namespace ddprun::agent {

/// Samples workers for `ddprunctl stacks`: each worker twice, a second apart, and several workers
/// at a time. Lives on the agent's thread; /proc is read on another thread.
class StackViews {
public:
    struct Calls {
        /// Runs work on a thread that may hang.
        std::function<void(BlockingThread::Work)> look;
        std::function<Instant()> now;
    };
    using Answer = std::function<void(control::CommandReply)>;

    StackViews(boost::asio::io_context& io, Calls calls);
    StackViews(const StackViews&) = delete;
    StackViews& operator=(const StackViews&) = delete;

    /// `answer` is called later, unless the thread hangs: then the caller's own deadline ends the
    /// command.
    void show(int rank, int pid, Answer answer);

private:
    struct First {
        int rank;
        Answer answer;
        health::Sample sample;
        Instant taken_at;
    };

    void wait(First first);
    void look_again(First first);

    boost::asio::io_context& io_;
    Calls calls_;
};

}  // namespace ddprun::agent
