// SPDX-License-Identifier: Apache-2.0
#include "agent/output/event_file.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/wall_time.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <string_view>
#include <thread>
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
        // In one piece: agents of one machine may share a file.
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
    boost::asio::io_context queue;
    std::atomic<std::size_t> waiting{0};
    std::promise<void> flushed;
    std::thread thread;
    // Of the thread.
    int descriptor = -1;
    bool has_complained = false;
};

EventFile::EventFile(std::string path) {
    if (path.empty()) return;
    state_ = std::make_shared<State>(std::move(path));
    state_->thread = std::thread([state = state_] {
        const auto work = boost::asio::make_work_guard(state->queue);
        state->open();
        state->queue.run();
    });
}

EventFile::~EventFile() {
    if (!state_) return;
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

void EventFile::write(Event event) {
    if (!state_) return;
    const auto stamp = unix_milliseconds();
    if (state_->waiting >= limits::max_waiting_events) return;
    ++state_->waiting;
    boost::asio::post(state_->queue, [state = state_.get(), stamp, event = std::move(event)] {
        state->append(event_line(event, stamp));
        --state->waiting;
    });
}

}  // namespace ddprun::agent
