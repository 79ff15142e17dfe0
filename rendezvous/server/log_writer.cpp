// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/log_writer.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/signal_masked_thread.hpp"

#include <climits>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace ddprun::server {
namespace {

constexpr int poll_slice_ms = 100;

std::string words_for(std::size_t lines_left_out) {
    return "ddprun-rendezvous: " + std::to_string(lines_left_out) +
           " log lines were left out: standard error was not read\n";
}

}  // namespace

LogWriter::LogWriter(int descriptor)
    : descriptor_(descriptor),
      thread_(start_signal_masked_thread([this] { run(); })) {}

LogWriter::~LogWriter() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    has_work_.notify_one();
    thread_.join();
}

void LogWriter::write(std::string line) {
    {
        const std::lock_guard lock(mutex_);
        if (backlog_.size() + line.size() > limits::max_log_backlog_bytes) {
            ++lines_left_out_;
            return;
        }
        backlog_ += line;
    }
    has_work_.notify_one();
}

void LogWriter::run() {
    for (;;) {
        std::string text;
        {
            std::unique_lock lock(mutex_);
            has_work_.wait(lock, [this] { return is_ending_ || !backlog_.empty(); });
            if (backlog_.empty()) return;
            text = std::exchange(backlog_, {});
            if (const auto count = std::exchange(lines_left_out_, 0); count > 0)
                text += words_for(count);
        }
        if (!write_all(text)) return;
    }
}

/// Returns false when the descriptor is broken, or when it has blocked for
/// `limits::log_flush_timeout` in all during the exit.
bool LogWriter::write_all(const std::string& text) {
    auto timeout = limits::log_flush_timeout;
    std::string_view rest = text;
    while (!rest.empty()) {
        pollfd writable{descriptor_, POLLOUT, 0};
        const int ready = ::poll(&writable, 1, poll_slice_ms);
        if (ready == 0) {
            if (may_go_on()) continue;
            timeout -= std::chrono::milliseconds{poll_slice_ms};
            if (timeout <= Duration::zero()) return false;
            continue;
        }
        // A pipe that can be written to has room for this much: the call does not wait.
        const auto size =
            ::write(descriptor_, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
        if (size < 0 && errno != EINTR && errno != EAGAIN) return false;
        if (size > 0) rest.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

bool LogWriter::may_go_on() const {
    const std::lock_guard lock(mutex_);
    return !is_ending_;
}

}  // namespace ddprun::server
