// SPDX-License-Identifier: Apache-2.0
#include "agent/output/stream_relay.hpp"

#include "rendezvous/base/limits.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::size_t read_bytes = 64 * 1024;

void close_if_open(int& descriptor) {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

}  // namespace

/// Shared with the pending wait, which may outlive the relay.
struct StreamRelay::State : std::enable_shared_from_this<StreamRelay::State> {
    State(
        boost::asio::io_context& io,
        Writer& to,
        std::shared_ptr<StreamSink> target,
        int read_end,
        int write_end)
        : writer(to),
          sink(std::move(target)),
          pipe(io, read_end),
          worker_end(write_end) {}
    ~State() { close_if_open(worker_end); }

    void wait() {
        if (is_waiting || !pipe.is_open()) return;
        is_waiting = true;
        pipe.async_wait(
            boost::asio::posix::stream_descriptor::wait_read,
            [self = shared_from_this()](const boost::system::error_code& ec) {
                self->is_waiting = false;
                if (!ec) self->pass_on();
            });
    }

    void pass_on() {
        if (!pipe.is_open()) return;
        // Reading pauses while the writer is full; `resume` continues it.
        if (writer.is_full()) return sink->set_paused(true);
        const auto size = take(read_bytes);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return close();
        sink->set_paused(false);
        wait();
    }

    /// Reads once, at most `most_bytes`; returns what read(2) returned.
    ssize_t take(std::size_t most_bytes) {
        std::array<char, read_bytes> bytes;
        const auto size =
            ::read(pipe.native_handle(), bytes.data(), std::min(most_bytes, read_bytes));
        if (size <= 0) return size;
        const std::string_view taken{bytes.data(), static_cast<std::size_t>(size)};
        remember(taken);
        if (observer) observer(taken);
        writer.pass(sink, std::string{taken});
        return size;
    }

    void remember(std::string_view bytes) {
        const auto kept = std::min(bytes.size(), limits::max_stderr_tail_bytes);
        const auto room = limits::max_stderr_tail_bytes - kept;
        if (last_bytes.size() > room) last_bytes.erase(0, last_bytes.size() - room);
        last_bytes += bytes.substr(bytes.size() - kept);
    }

    /// Reads what the pipe contains now, not what a grandchild adds meanwhile.
    void drain() {
        int held = 0;
        if (!pipe.is_open() || ::ioctl(pipe.native_handle(), FIONREAD, &held) != 0) return;
        while (held > 0) {
            const auto size = take(static_cast<std::size_t>(held));
            if (size <= 0) return;
            held -= static_cast<int>(size);
        }
    }

    void redirect(std::shared_ptr<StreamSink> to, Observer new_observer) {
        // The worker has ended, and what it wrote is where it belongs.
        if (!pipe.is_open()) return writer.end(std::move(to));
        // What is in the pipe was written before: it is for the old sink, and no new step.
        observer = {};
        last_bytes.clear();
        drain();
        observer = std::move(new_observer);
        writer.end(std::exchange(sink, std::move(to)));
    }

    void close() {
        boost::system::error_code ignored;
        pipe.close(ignored);
        // The writer's thread releases it last: closing a file may block.
        if (sink) writer.end(std::exchange(sink, nullptr));
    }

    Writer& writer;
    std::shared_ptr<StreamSink> sink;
    boost::asio::posix::stream_descriptor pipe;
    int worker_end;
    Observer observer;
    bool is_waiting = false;
    std::string last_bytes;
};

Result<StreamRelay> StreamRelay::open(
    boost::asio::io_context& io,
    Writer& writer,
    std::shared_ptr<StreamSink> sink,
    Observer observer) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return Failure{system_code(errno), "pipe for a worker's output"};
    // Only the agent's end is non-blocking; the worker's end stays blocking.
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto state = std::make_shared<State>(io, writer, std::move(sink), ends[0], ends[1]);
    state->observer = std::move(observer);
    state->wait();
    return StreamRelay(std::move(state));
}

StreamRelay::StreamRelay(std::shared_ptr<State> state) : state_(std::move(state)) {}
StreamRelay::StreamRelay(StreamRelay&&) noexcept = default;

StreamRelay& StreamRelay::operator=(StreamRelay&& other) noexcept {
    if (this != &other) {
        if (state_) state_->close();
        state_ = std::move(other.state_);
    }
    return *this;
}

StreamRelay::~StreamRelay() {
    if (state_) state_->close();
}

int StreamRelay::worker_end() const {
    return state_->worker_end;
}

void StreamRelay::close_worker_end() {
    close_if_open(state_->worker_end);
}

void StreamRelay::redirect(std::shared_ptr<StreamSink> sink, Observer observer) {
    state_->redirect(std::move(sink), std::move(observer));
}

void StreamRelay::resume() {
    state_->pass_on();
}

void StreamRelay::finish() {
    close_worker_end();
    state_->drain();
    state_->close();
}

const std::string& StreamRelay::tail() const {
    return state_->last_bytes;
}

}  // namespace ddprun::agent
