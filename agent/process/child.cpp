// SPDX-License-Identifier: Apache-2.0
#include "agent/process/child.hpp"

#include "agent/process/descendants.hpp"
#include "agent/process/exit_waiter.hpp"
#include "rendezvous/base/machine.hpp"

#include <boost/asio.hpp>
#include <boost/optional.hpp>
#include <boost/process/v2/process_handle.hpp>
#include <boost/process/v2/src.hpp>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>

// Boost.Process v2 is used for reaping only; its function bodies are compiled here, once.
// CMakeLists.txt adds a header that Boost 1.81 does not include itself.
namespace ddprun::agent {
namespace {

constexpr auto waited_by_another = "a worker was waited for by other code";

}  // namespace

/// Shared with the pending wait, whose completion may already be queued when the Child is
/// destroyed.
struct Child::State : std::enable_shared_from_this<Child::State> {
    pid_t pid = 0;
    int descriptor = -1;
    std::optional<boost::process::v2::process_handle> handle;
    /// Becomes readable when the process has ended.
    std::optional<boost::asio::posix::stream_descriptor> end;
    /// Replaces the three above when the kernel provides no descriptor.
    std::optional<ExitWaiter> waiter;
    OnExit on_exit;
    bool has_exited = false;

    /// The handle's own wait is not used: after a spurious wake-up it blocks the whole loop until
    /// the process ends. Asio wakes a wait spuriously when its descriptor has the number of one
    /// that was closed while it still had an event.
    void wait() {
        end->async_wait(
            boost::asio::posix::stream_descriptor::wait_read,
            [self = shared_from_this()](const boost::system::error_code& ec) {
                if (ec || !self->handle) return;  // the Child is destroyed
                self->look();
            });
    }

    void look() {
        // The raw status, since Boost.Process's exit code no longer distinguishes exit(15) from
        // SIGTERM.
        int status = 0;
        boost::system::error_code ec;
        if (handle->running(status, ec)) return wait();
        // The status of a child process can be missing only if other code has taken it.
        require(!ec, waited_by_another);
        end_with(status);
    }

    void end_with(int wait_status) {
        has_exited = true;
        if (auto callback = std::exchange(on_exit, nullptr))
            callback(WorkerExit::from_wait_status(wait_status));
    }
};

Result<Child> Child::watch(boost::asio::io_context& io, pid_t pid, OnExit on_exit) {
    auto state = std::make_shared<State>();
    state->pid = pid;
    // Opened here, since the handle ignores errors.
    state->descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    state->on_exit = std::move(on_exit);
    if (state->descriptor < 0) {
        auto waiter = ExitWaiter::start(io, pid, [state = state.get()] {
            // Only this object reaps the process: until here its number belongs to no other
            // process.
            int status = 0;
            require(::waitpid(state->pid, &status, WNOHANG) == state->pid, waited_by_another);
            state->end_with(status);
        });
        if (!waiter) return waiter.error();
        state->waiter.emplace(std::move(*waiter));
        return Child(std::move(state));
    }
    const int end = ::fcntl(state->descriptor, F_DUPFD_CLOEXEC, 0);
    const int error_number = errno;
    state->handle.emplace(io.get_executor(), pid, state->descriptor);
    if (end < 0) return Failure{system_code(error_number), "watch process " + std::to_string(pid)};
    state->end.emplace(io, end);
    state->wait();
    return Child(std::move(state));
}

Child::Child(std::shared_ptr<State> state) : state_(std::move(state)) {}
Child::Child(Child&&) noexcept = default;

Child& Child::operator=(Child&& other) noexcept {
    if (this != &other) {
        release();
        state_ = std::move(other.state_);
    }
    return *this;
}

Child::~Child() {
    release();
}

/// Closes the descriptor; the pending wait is aborted and releases the state.
void Child::release() {
    if (!state_) return;
    state_->handle.reset();
    state_->end.reset();
    state_->waiter.reset();
}

pid_t Child::pid() const {
    return state_->pid;
}

bool Child::has_exited() const {
    return state_->has_exited;
}

bool Child::signal_leader(int signal) {
    if (state_->descriptor < 0) return !has_exited() && ::kill(state_->pid, signal) == 0;
    return ::syscall(SYS_pidfd_send_signal, state_->descriptor, signal, nullptr, 0) == 0;
}

int Child::signal_session(int signal) {
    return signal_session_of(state_->pid, signal);
}

void Child::kill_session() {
    signal_session(SIGKILL);
    signal_leader(SIGKILL);
}

OrphanReaper::OrphanReaper(boost::asio::io_context& io, std::function<std::vector<pid_t>()> watched)
    : child_ended_(io, SIGCHLD),
      watched_(std::move(watched)) {
    wait();
}

void OrphanReaper::wait() {
    child_ended_.async_wait([this](const boost::system::error_code& ec, int) {
        if (ec) return;
        reap_orphans(watched_());
        wait();
    });
}

}  // namespace ddprun::agent
