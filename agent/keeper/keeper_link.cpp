// SPDX-License-Identifier: Apache-2.0
#include "agent/keeper/keeper_link.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

namespace ddprun::agent {

using keeper::FromAgent;
using keeper::SignalCame;

namespace {

/// Removes the signal from the pending signals of this process.
bool take_pending(int signal) {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, signal);
    constexpr timespec at_once{};
    return ::sigtimedwait(&wanted, nullptr, &at_once) == signal;
}

/// Whether the process has the name of Slurm's step daemon, the parent of a step's tasks.
bool is_slurm_daemon(pid_t process) {
    std::array<char, 32> path{};
    std::snprintf(path.data(), path.size(), "/proc/%d/comm", process);
    const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    std::array<char, 32> name{};
    const auto size = ::read(file, name.data(), name.size());
    ::close(file);
    constexpr std::string_view expected = "slurmstepd\n";
    return size > 0 && std::string_view{name.data(), static_cast<std::size_t>(size)} == expected;
}

/// Slurm without control groups signals every process of a step, children before their parents. So
/// this process and the workers have the signal before the keeper does. The sender's name is
/// checked because a user might signal both ddprun processes but no worker.
bool is_for_all_processes(const SignalCame& came) {
    return take_pending(came.signal) && is_slurm_daemon(came.sender);
}

}  // namespace

KeeperLink::KeeperLink(
    boost::asio::io_context& io,
    AgentSide side,
    std::function<void(int, bool)> on_signal,
    std::function<void()> on_keeper_gone)
    : socket_(io, side.socket),
      page_(side.page),
      keeper_(side.keeper),
      on_signal_(std::move(on_signal)),
      on_keeper_gone_(std::move(on_keeper_gone)) {
    wait();
}

void KeeperLink::wait() {
    socket_.async_wait(
        boost::asio::posix::stream_descriptor::wait_read,
        [this](const boost::system::error_code& ec) {
            if (ec) return;  // this object is destroyed
            if (read_all()) wait();
        });
}

/// Returns false when the keeper has ended.
bool KeeperLink::read_all() {
    for (;;) {
        SignalCame message{};
        const auto size = ::recv(socket_.native_handle(), &message, sizeof message, MSG_DONTWAIT);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return true;
        if (size <= 0) {
            on_keeper_gone_();
            return false;
        }
        ++signals_read_;
        // The keeper stops itself once it reads that the workers are stopped.
        on_signal_(message.signal, is_for_all_processes(message));
        send(FromAgent::Kind::signals_read);
    }
}

void KeeperLink::send(FromAgent::Kind kind) {
    const FromAgent message{kind, signals_read_};
    // Errors are ignored: the end of the keeper is detected by reading, and a keeper whose queue is
    // full is not waiting for messages.
    ::send(socket_.native_handle(), &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Result<> KeeperLink::hand_up(int connection) {
    FromAgent message{FromAgent::Kind::connection, signals_read_};
    iovec bytes{&message, sizeof message};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof connection)> control{};
    msghdr packet{};
    packet.msg_iov = &bytes;
    packet.msg_iovlen = 1;
    packet.msg_control = control.data();
    packet.msg_controllen = control.size();
    auto* const header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof connection);
    std::memcpy(CMSG_DATA(header), &connection, sizeof connection);
    if (::sendmsg(socket_.native_handle(), &packet, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return Failure{system_code(errno), "hand the connection to the keeper"};
    return {};
}

void KeeperLink::set_fence(std::optional<Instant> ends_at) {
    const auto before = page_->fence_ends_at.load();
    const auto after = ends_at ? nanoseconds_since_boot(*ends_at) : 0;
    page_->fence_ends_at.store(after);
    // The keeper notices a later fence when it wakes for the earlier one.
    if (after != 0 && (before == 0 || after < before)) send(FromAgent::Kind::fence_moved);
}

void KeeperLink::note_error_files(const std::string& stem, int count) {
    page_->error_file_count.store(0);
    if (stem.size() >= max_error_file_stem_bytes) return;
    std::memcpy(page_->error_file_stem.data(), stem.c_str(), stem.size() + 1);
    page_->error_file_count.store(count);
}

void KeeperLink::remove_error_files() {
    agent::remove_error_files(*page_);
    page_->error_file_count.store(0);
}

void KeeperLink::note_session(int local_index, pid_t session) {
    page_->sessions[static_cast<std::size_t>(local_index)].store(session);
}

}  // namespace ddprun::agent
