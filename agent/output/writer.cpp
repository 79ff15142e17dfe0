// SPDX-License-Identifier: Apache-2.0
#include "agent/output/writer.hpp"

#include "agent/output/stream_sink.hpp"
#include "agent/process/queue_thread.hpp"
#include "rendezvous/base/limits.hpp"

#include <boost/asio/post.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace ddprun::agent {

/// Shared with the thread, which may outlive the writer inside a write that never returns.
struct Writer::State {
    State(boost::asio::io_context& io, std::function<void()> callback)
        : agent(io),
          on_room(std::move(callback)) {}

    boost::asio::io_context& agent;
    std::function<void()> on_room;
    // Declared before the thread: entries in its queue may still refer to the console.
    Console console;
    QueueThread thread;
    std::atomic<std::size_t> backlog_bytes{0};
    std::atomic<std::uint64_t> finished_jobs{0};
    std::atomic<bool> was_full{false};
    std::atomic<bool> is_ending{false};

    /// Changes whenever any work was done.
    std::uint64_t progress() const { return console.written_bytes() + finished_jobs; }
};

Writer::Writer(boost::asio::io_context& agent, std::function<void()> on_room)
    : state_(std::make_shared<State>(agent, std::move(on_room))) {
    state_->thread.start(state_);
}

Writer::~Writer() {
    state_->is_ending = true;
    state_->thread.end(
        limits::console_flush_timeout, [state = state_.get()] { return state->progress(); });
}

void Writer::write(int descriptor, std::string lines) {
    const auto size = lines.size();
    add(size, [&console = state_->console, descriptor, text = std::move(lines)] {
        if (console.line_owner(descriptor) != nullptr) console.write(descriptor, "\n");
        console.set_line_owner(descriptor, nullptr);
        console.write(descriptor, text);
    });
}

void Writer::pass(std::shared_ptr<StreamSink> sink, std::string bytes) {
    const auto size = bytes.size();
    sink->announce();
    add(size, [to = std::move(sink), text = std::move(bytes)] { to->take(text); });
}

void Writer::end(std::shared_ptr<StreamSink> sink) {
    add(0, [to = std::move(sink)] { to->end(); });
}

void Writer::run(std::function<void()> job) {
    add(0, std::move(job));
}

void Writer::add(std::size_t bytes, std::function<void()> job) {
    state_->backlog_bytes += bytes;
    if (is_full()) state_->was_full = true;
    boost::asio::post(state_->thread.queue(), [state = state_.get(), bytes, work = std::move(job)] {
        work();
        ++state->finished_jobs;
        const auto left = state->backlog_bytes -= bytes;
        if (left > limits::max_output_backlog_bytes / 2 || state->is_ending) return;
        if (state->was_full.exchange(false)) boost::asio::post(state->agent, state->on_room);
    });
}

bool Writer::is_full() const {
    return state_->backlog_bytes >= limits::max_output_backlog_bytes;
}

boost::asio::io_context& Writer::queue() {
    return state_->thread.queue();
}

Console& Writer::console() {
    return state_->console;
}

}  // namespace ddprun::agent
