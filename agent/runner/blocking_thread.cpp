// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/blocking_thread.hpp"

#include "agent/process/queue_thread.hpp"
#include "rendezvous/base/limits.hpp"

#include <boost/asio/post.hpp>

#include <mutex>
#include <utility>

namespace ddprun::agent {

/// Shared with the thread, which may outlive the owner inside a call that never returns.
struct BlockingThread::State {
    explicit State(boost::asio::io_context& io) : agent(&io) {}

    void answer(Answer answer) {
        const std::scoped_lock lock(mutex);
        if (agent != nullptr && answer) boost::asio::post(*agent, std::move(answer));
    }

    std::mutex mutex;
    /// Null when answers are no longer awaited.
    boost::asio::io_context* agent;
    QueueThread thread;
};

BlockingThread::BlockingThread(boost::asio::io_context& agent)
    : state_(std::make_shared<State>(agent)) {
    state_->thread.start(state_);
}

BlockingThread::~BlockingThread() {
    {
        const std::scoped_lock lock(state_->mutex);
        state_->agent = nullptr;
    }
    state_->thread.end(limits::last_files_timeout);
}

void BlockingThread::post(Work work) {
    boost::asio::post(state_->thread.queue(), [state = state_.get(), work = std::move(work)] {
        state->answer(work());
    });
}

}  // namespace ddprun::agent
