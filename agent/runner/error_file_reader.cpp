// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/error_file_reader.hpp"

#include "rendezvous/base/limits.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace ddprun::agent {

/// Shared with the thread, which may outlive the reader inside a call that never returns.
struct ErrorFileReader::State {
    explicit State(boost::asio::io_context& io) : agent(&io) {}

    void answer(OnRead on_read, std::optional<ErrorReport> report) {
        const std::scoped_lock lock(mutex);
        if (agent == nullptr) return;
        boost::asio::post(
            *agent, [on_read = std::move(on_read), report = std::move(report)]() mutable {
                on_read(std::move(report));
            });
    }

    std::mutex mutex;
    /// Null when nobody waits for answers any more.
    boost::asio::io_context* agent;
    boost::asio::io_context queue;
    std::promise<void> done;
    std::thread thread;
};

namespace {

/// For the removals of the last round.
constexpr std::chrono::seconds last_files_timeout{1};

/// The first `limits::max_error_file_bytes` of a regular file; a pipe of that name is not waited
/// for.
std::optional<std::string> read_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return std::nullopt;
    std::string text;
    struct stat about {};
    if (::fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
        std::array<char, 16 * 1024> chunk{};
        while (text.size() < limits::max_error_file_bytes) {
            const auto size = ::read(file, chunk.data(), chunk.size());
            if (size <= 0) break;
            text.append(chunk.data(), static_cast<std::size_t>(size));
        }
    }
    ::close(file);
    return text;
}

}  // namespace

ErrorFileReader::ErrorFileReader(boost::asio::io_context& agent)
    : state_(std::make_shared<State>(agent)) {
    state_->thread = std::thread([state = state_] {
        const auto work = boost::asio::make_work_guard(state->queue);
        state->queue.run();
    });
}

ErrorFileReader::~ErrorFileReader() {
    {
        const std::scoped_lock lock(state_->mutex);
        state_->agent = nullptr;
    }
    auto done = state_->done.get_future();
    boost::asio::post(state_->queue, [state = state_.get()] {
        state->done.set_value();
        state->queue.stop();
    });
    if (done.wait_for(last_files_timeout) == std::future_status::ready)
        state_->thread.join();
    else
        state_->thread.detach();
}

void ErrorFileReader::read(std::string path, OnRead on_read) {
    boost::asio::post(
        state_->queue,
        [state = state_.get(), path = std::move(path), on_read = std::move(on_read)]() mutable {
            auto text = read_file(path);
            auto report = text ? parse_error_file(*text) : std::nullopt;
            if (text) ::unlink(path.c_str());
            state->answer(std::move(on_read), std::move(report));
        });
}

void ErrorFileReader::remove(std::vector<std::string> paths) {
    boost::asio::post(state_->queue, [paths = std::move(paths)] {
        for (const auto& path : paths)
            ::unlink(path.c_str());
    });
}

}  // namespace ddprun::agent
