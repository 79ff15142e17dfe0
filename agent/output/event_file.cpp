// SPDX-License-Identifier: Apache-2.0
#include "agent/output/event_file.hpp"

#include "agent/process/queue_thread.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/wall_time.hpp"

#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>
#include <utility>

namespace ddprun::agent {

/// Shared with the thread, which may outlive its owner inside a write that never returns.
struct EventFile::State {
    explicit State(std::string file) : path(std::move(file)) {}
    ~State() {
        if (descriptor >= 0) ::close(descriptor);
    }

    void open() {
        constexpr mode_t any_user = 0666;
        descriptor =
            ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, any_user);
        if (descriptor < 0) complain(errno);
    }

    void append(std::string_view line) {
        // Written in one piece, since agents of one machine may share a file.
        while (descriptor >= 0 && !line.empty()) {
            const auto size = ::write(descriptor, line.data(), line.size());
            if (size < 0 && errno == EINTR) continue;
            if (size <= 0) return complain(size < 0 ? errno : ENOSPC);
            line.remove_prefix(static_cast<std::size_t>(size));
        }
    }

    void complain(int error_number) {
        if (std::exchange(has_complained, true)) return;
        log::warning(
            "events.not_written",
            {{"path", path}, {"reason", system_code(error_number).message()}});
    }

    const std::string path;
    QueueThread thread;
    std::atomic<std::size_t> waiting{0};
    // Used by the thread only.
    int descriptor = -1;
    bool has_complained = false;
};

EventFile::EventFile(std::string path) {
    if (path.empty()) return;
    state_ = std::make_shared<State>(std::move(path));
    boost::asio::post(state_->thread.queue(), [state = state_.get()] { state->open(); });
    state_->thread.start(state_);
}

EventFile::~EventFile() {
    if (state_) state_->thread.end(limits::console_flush_timeout);
}

void EventFile::write(Event event) {
    if (!state_) return;
    const auto stamp = unix_milliseconds();
    if (state_->waiting >= limits::max_waiting_events) return;
    ++state_->waiting;
    boost::asio::post(
        state_->thread.queue(), [state = state_.get(), stamp, event = std::move(event)] {
            state->append(event_line(event, stamp));
            --state->waiting;
        });
}

}  // namespace ddprun::agent
