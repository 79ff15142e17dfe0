// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/blocking_thread.hpp"

#include "rendezvous/base/limits.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace ddprun::agent {

/// Shared with the thread, which may outlive the object inside a call that never returns.
struct BlockingThread::State {
    explicit State(boost::asio::io_context& io) : agent(&io) {}

    void answer(Answer answer) {
        const std::scoped_lock lock(mutex);
        if (agent != nullptr && answer) boost::asio::post(*agent, std::move(answer));
    }

    std::mutex mutex;
    /// Null when answers are not awaited any more.
    boost::asio::io_context* agent;
    boost::asio::io_context queue;
    std::promise<void> done;
    std::thread thread;
};

BlockingThread::BlockingThread(boost::asio::io_context& agent)
    : state_(std::make_shared<State>(agent)) {
    state_->thread = std::thread([state = state_] {
        const auto guard = boost::asio::make_work_guard(state->queue);
        state->queue.run();
    });
}

BlockingThread::~BlockingThread() {
    {
        const std::scoped_lock lock(state_->mutex);
        state_->agent = nullptr;
    }
    auto done = state_->done.get_future();
    boost::asio::post(state_->queue, [state = state_.get()] {
        state->done.set_value();
        state->queue.stop();
    });
    if (done.wait_for(limits::last_files_timeout) == std::future_status::ready)
        state_->thread.join();
    else
        state_->thread.detach();
}

void BlockingThread::post(Work work) {
    boost::asio::post(
        state_->queue, [state = state_.get(), work = std::move(work)] { state->answer(work()); });
}

}  // namespace ddprun::agent
