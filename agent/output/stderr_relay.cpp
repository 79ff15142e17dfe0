// SPDX-License-Identifier: Apache-2.0
#include "agent/output/stderr_relay.hpp"

#include "rendezvous/base/limits.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::size_t read_bytes = 64 * 1024;

void close_if_open(int& descriptor) {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

}  // namespace

/// Shared with the pending wait.
struct StderrRelay::State : std::enable_shared_from_this<StderrRelay::State> {
    State(boost::asio::io_context& io, ConsoleWriter& writer, int read_end, int write_end)
        : console(writer),
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
        // A full console stops the reading; `resume` begins again.
        if (!pipe.is_open() || console.is_full()) return;
        const auto size = take(read_bytes);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return close();
        wait();
    }

    /// One read of at most `most_bytes`; what read(2) returned.
    ssize_t take(std::size_t most_bytes) {
        std::string bytes(std::min(most_bytes, read_bytes), '\0');
        const auto size = ::read(pipe.native_handle(), bytes.data(), bytes.size());
        if (size <= 0) return size;
        bytes.resize(static_cast<std::size_t>(size));
        remember(bytes);
        console.write(STDERR_FILENO, std::move(bytes));
        return size;
    }

    void remember(std::string_view bytes) {
        last_bytes += bytes;
        if (last_bytes.size() > limits::max_stderr_tail_bytes)
            last_bytes.erase(0, last_bytes.size() - limits::max_stderr_tail_bytes);
    }

    /// What the pipe holds at this moment and not what a grandchild adds meanwhile.
    void drain() {
        int held = 0;
        if (!pipe.is_open() || ::ioctl(pipe.native_handle(), FIONREAD, &held) != 0) return;
        while (held > 0) {
            const auto size = take(static_cast<std::size_t>(held));
            if (size <= 0) return;
            held -= static_cast<int>(size);
        }
    }

    void close() {
        boost::system::error_code ignored;
        pipe.close(ignored);
    }

    ConsoleWriter& console;
    boost::asio::posix::stream_descriptor pipe;
    int worker_end;
    bool is_waiting = false;
    std::string last_bytes;
};

Result<StderrRelay> StderrRelay::open(boost::asio::io_context& io, ConsoleWriter& console) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return Failure{system_code(errno), "pipe for a worker's stderr"};
    // Ours alone: the worker's end stays blocking.
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto state = std::make_shared<State>(io, console, ends[0], ends[1]);
    state->wait();
    return StderrRelay(std::move(state));
}

StderrRelay::StderrRelay(std::shared_ptr<State> state) : state_(std::move(state)) {}
StderrRelay::StderrRelay(StderrRelay&&) noexcept = default;

StderrRelay& StderrRelay::operator=(StderrRelay&& other) noexcept {
    if (this != &other) {
        if (state_) state_->close();
        state_ = std::move(other.state_);
    }
    return *this;
}

StderrRelay::~StderrRelay() {
    if (state_) state_->close();
}

int StderrRelay::worker_end() const {
    return state_->worker_end;
}

void StderrRelay::close_worker_end() {
    close_if_open(state_->worker_end);
}

void StderrRelay::resume() {
    state_->pass_on();
}

void StderrRelay::finish() {
    close_worker_end();
    state_->drain();
    state_->close();
}

const std::string& StderrRelay::tail() const {
    return state_->last_bytes;
}

}  // namespace ddprun::agent
