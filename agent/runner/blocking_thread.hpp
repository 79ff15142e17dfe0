// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>

namespace ddprun::agent {

/// A thread for calls that may block on a disk: a call that hangs must not block the agent or its
/// exit. Work is done in order. The answer of each piece of work runs on the agent's thread.
class BlockingThread {
public:
    /// Uses the result of the work on the agent's thread; may be empty.
    using Answer = std::function<void()>;
    using Work = std::function<Answer()>;

    explicit BlockingThread(boost::asio::io_context& agent);
    /// Waits a moment for open work; after that a thread that hangs is abandoned.
    ~BlockingThread();
    BlockingThread(const BlockingThread&) = delete;
    BlockingThread& operator=(const BlockingThread&) = delete;

    /// `work` must own everything it uses: it may outlive this object.
    void post(Work work);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
