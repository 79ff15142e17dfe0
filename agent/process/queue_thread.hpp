// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace ddprun::agent {

/// A thread that performs queued work in order. A call that never returns (on a disk that hangs, a
/// terminal that is stopped) must not keep the agent from ending: such a thread is abandoned. So
/// the owner and the thread share the state that has this member, and the work uses only that
/// state.
class QueueThread {
public:
    /// Call it once. `state` contains this object, and is kept until the thread ends.
    void start(std::shared_ptr<const void> state) {
        thread_ = std::thread([this, kept = std::move(state)] {
            const auto work = boost::asio::make_work_guard(queue_);
            queue_.run();
        });
    }

    boost::asio::io_context& queue() { return queue_; }

    /// Waits until all queued work is done, as long as `progress` changes within `timeout`.
    /// Afterwards the thread has ended or is abandoned.
    void end(
        Duration timeout,
        const std::function<std::uint64_t()>& progress = [] { return std::uint64_t{}; }) {
        auto done = done_.get_future();
        boost::asio::post(queue_, [this] {
            done_.set_value();
            queue_.stop();
        });
        auto before = progress();
        while (done.wait_for(timeout) != std::future_status::ready) {
            const auto now = progress();
            if (now == before) return thread_.detach();
            before = now;
        }
        thread_.join();
    }

private:
    boost::asio::io_context queue_;
    std::promise<void> done_;
    std::thread thread_;
};

}  // namespace ddprun::agent
