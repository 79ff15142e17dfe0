// SPDX-License-Identifier: Apache-2.0
#include "agent/process/child.hpp"

#include "agent/process/descendants.hpp"
#include "agent/process/exit_waiter.hpp"
#include "rendezvous/base/machine.hpp"

// Boost.Process v2 as a waiter only; its function bodies are compiled here, once. What it needs and
// Boost 1.81 forgets to include comes from CMakeLists.txt.
#include <boost/asio.hpp>
#include <boost/optional.hpp>
#include <boost/process/v2/process_handle.hpp>
#include <boost/process/v2/src.hpp>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr auto waited_by_another = "a worker was waited for by somebody else";

}  // namespace

/// Shared with the pending wait, whose completion may already be queued when the Child goes.
struct Child::State {
    pid_t pid = 0;
    int descriptor = -1;
    std::optional<boost::process::v2::process_handle> handle;
    /// Instead of the two above, where the kernel gives no descriptor.
    std::optional<ExitWaiter> waiter;
    OnExit on_exit;
    bool has_exited = false;

    void end_with(int wait_status) {
        has_exited = true;
        if (auto callback = std::exchange(on_exit, nullptr))
            callback(WorkerExit::from_wait_status(wait_status));
    }
};

Result<Child> Child::watch(boost::asio::io_context& io, pid_t pid, OnExit on_exit) {
    auto state = std::make_shared<State>();
    state->pid = pid;
    // Opened here and not by the handle, which does not look at errors.
    state->descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    state->on_exit = std::move(on_exit);
    if (state->descriptor < 0) {
        auto waiter = ExitWaiter::start(io, pid, [state = state.get()] {
            // Only we reap it: until here its number belongs to nobody else.
            int status = 0;
            require(::waitpid(state->pid, &status, WNOHANG) == state->pid, waited_by_another);
            state->end_with(status);
        });
        if (!waiter) return waiter.error();
        state->waiter.emplace(std::move(*waiter));
        return Child(std::move(state));
    }
    state->handle.emplace(io.get_executor(), pid, state->descriptor);
    // The raw status: what Boost.Process makes of it no longer tells exit(15) from SIGTERM.
    state->handle->async_wait([state](const boost::system::error_code& ec, int status) {
        if (!state->handle) return;  // the Child is gone
        // The status of a child of ours cannot be missing unless somebody else took it.
        require(!ec, waited_by_another);
        state->end_with(status);
    });
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

/// Closes the descriptor; the pending wait is aborted and lets go of the state.
void Child::release() {
    if (!state_) return;
    state_->handle.reset();
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

}  // namespace ddprun::agent
