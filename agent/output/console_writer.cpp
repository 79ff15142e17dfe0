// SPDX-License-Identifier: Apache-2.0
#include "agent/output/console_writer.hpp"

#include "rendezvous/base/limits.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

namespace ddprun::agent {

/// Shared with the thread, which may outlive the writer inside a write that never returns.
struct ConsoleWriter::State {
    State(boost::asio::io_context& io, std::function<void()> callback)
        : agent(io),
          on_room(std::move(callback)) {}

    boost::asio::io_context& agent;
    std::function<void()> on_room;
    boost::asio::io_context queue;
    std::atomic<std::size_t> backlog_bytes{0};
    std::atomic<bool> was_full{false};
    std::atomic<bool> is_ending{false};
    std::promise<void> flushed;
    std::thread thread;
};

namespace {

/// Whatever the descriptor is: a terminal, a pipe whose reader is gone, one somebody made
/// non-blocking. An error ends this piece of output and nothing else.
void write_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto size = ::write(descriptor, bytes.data(), bytes.size());
        if (size > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(size));
        } else if (size < 0 && errno == EAGAIN) {
            pollfd room{descriptor, POLLOUT, 0};
            ::poll(&room, 1, -1);
        } else if (size < 0 && errno != EINTR) {
            return;
        }
    }
}

}  // namespace

ConsoleWriter::ConsoleWriter(boost::asio::io_context& agent, std::function<void()> on_room)
    : state_(std::make_shared<State>(agent, std::move(on_room))) {
    state_->thread = std::thread([state = state_] {
        const auto work = boost::asio::make_work_guard(state->queue);
        state->queue.run();
    });
}

ConsoleWriter::~ConsoleWriter() {
    state_->is_ending = true;
    auto flushed = state_->flushed.get_future();
    boost::asio::post(state_->queue, [state = state_.get()] {
        state->flushed.set_value();
        state->queue.stop();
    });
    if (flushed.wait_for(limits::console_flush_timeout) == std::future_status::ready)
        state_->thread.join();
    else
        state_->thread.detach();
}

void ConsoleWriter::write(int descriptor, std::string bytes) {
    state_->backlog_bytes += bytes.size();
    if (is_full()) state_->was_full = true;
    boost::asio::post(state_->queue, [state = state_.get(), descriptor, text = std::move(bytes)] {
        write_all(descriptor, text);
        const auto left = state->backlog_bytes -= text.size();
        if (left > limits::max_output_backlog_bytes / 2 || state->is_ending) return;
        if (state->was_full.exchange(false)) boost::asio::post(state->agent, state->on_room);
    });
}

bool ConsoleWriter::is_full() const {
    return state_->backlog_bytes >= limits::max_output_backlog_bytes;
}

}  // namespace ddprun::agent
