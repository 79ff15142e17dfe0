// SPDX-License-Identifier: Apache-2.0
#include "agent/process/exit_waiter.hpp"

#include <boost/asio/post.hpp>

#include <sys/wait.h>

#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::agent {

struct ExitWaiter::Shared {
    std::mutex mutex;
    /// Null once the owner is destroyed; the loop may be destroyed too.
    boost::asio::io_context* io = nullptr;
    std::function<void()> on_ended;
};

Result<ExitWaiter> ExitWaiter::start(
    boost::asio::io_context& io, pid_t pid, std::function<void()> on_ended) {
    auto shared = std::make_shared<Shared>();
    shared->io = &io;
    shared->on_ended = std::move(on_ended);
    const auto wait = [shared, pid] {
        siginfo_t ended{};
        while (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT) != 0 &&
               errno == EINTR) {
        }
        const std::lock_guard lock(shared->mutex);
        if (shared->io == nullptr) return;
        boost::asio::post(*shared->io, [shared] {
            // Runs on the owner's thread, so nothing changes meanwhile.
            if (shared->io != nullptr) shared->on_ended();
        });
    };
    try {
        std::thread(wait).detach();
    } catch (const std::system_error& error) {
        return Failure{system_code(error.code().value()), "watch process " + std::to_string(pid)};
    }
    return ExitWaiter(std::move(shared));
}

ExitWaiter::ExitWaiter(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

ExitWaiter::~ExitWaiter() {
    if (!shared_) return;
    const std::lock_guard lock(shared_->mutex);
    shared_->io = nullptr;
}

}  // namespace ddprun::agent
