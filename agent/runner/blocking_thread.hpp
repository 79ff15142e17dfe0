// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>

namespace ddprun::agent {

/// A thread for calls that may block on a disk: one that hangs must not stop the agent, nor its
/// end. Work is done in order; its answer runs on the agent's thread.
class BlockingThread {
public:
    /// What the agent's thread does with the result; may be empty.
    using Answer = std::function<void()>;
    using Work = std::function<Answer()>;

    explicit BlockingThread(boost::asio::io_context& agent);
    /// Waits a moment for open work; a disk that hangs is left to itself.
    ~BlockingThread();
    BlockingThread(const BlockingThread&) = delete;
    BlockingThread& operator=(const BlockingThread&) = delete;

    /// `work` must own what it uses: it may outlive this object.
    void post(Work work);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
