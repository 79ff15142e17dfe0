// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/handover.hpp"

#include "rendezvous/base/hex.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace ddprun::groups {

namespace {

using Clock = Handover::Clock;
using std::chrono::milliseconds;

GroupError socket_failure(const std::string& what) {
    return {GroupError::Kind::other, what + ": " + ::strerror(errno)};
}

std::string random_name() {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
    return "ddprun-" + in_hex(bytes);
}

/// The address of an abstract name, and its length.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto length = std::min(name.size(), sizeof address.sun_path - 1);
    ::memcpy(address.sun_path + 1, name.data(), length);
    return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)};
}

bool is_ready(int descriptor, Clock::time_point until) {
    constexpr long longest = waiting_times::longest_handover_poll.count();
    pollfd waiting{descriptor, POLLIN, 0};
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
        const int ready = ::poll(&waiting, 1, static_cast<int>(std::clamp<long>(left, 0, longest)));
        if (ready > 0) return true;
        if (ready < 0 && errno == EINTR) continue;
        if (ready < 0 || left <= longest) return false;
    }
}

bool is_same_user(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.uid == ::geteuid();
}

/// A message of one byte, with room for one descriptor.
struct Parcel {
    char byte = 0;
    iovec bytes{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};

    Parcel() {
        message.msg_iov = &bytes;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
    }
    Parcel(const Parcel&) = delete;
    Parcel& operator=(const Parcel&) = delete;
};

void send_descriptor(int socket, int descriptor) {
    Parcel parcel;
    auto* header = CMSG_FIRSTHDR(&parcel.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    ::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    // A peer that has left meanwhile is detected in its next step.
    ::sendmsg(socket, &parcel.message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::variant<int, GroupError> receive_descriptor(int socket, Clock::time_point until) {
    if (!is_ready(socket, until)) return GroupError{GroupError::Kind::timeout, "nothing came"};
    Parcel parcel;
    if (::recvmsg(socket, &parcel.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
        return socket_failure("recvmsg");
    const auto* header = CMSG_FIRSTHDR(&parcel.message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return GroupError{GroupError::Kind::other, "no descriptor came"};
    int descriptor = -1;
    ::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

}  // namespace

std::variant<Handover, GroupError> Handover::open() {
    auto name = random_name();
    if (name.empty()) return socket_failure("getrandom");
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return socket_failure("socket");
    const auto [address, length] = address_of(name);
    Handover handover(socket, std::move(name));
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0)
        return socket_failure("bind");
    if (::listen(socket, SOMAXCONN) != 0) return socket_failure("listen");
    return handover;
}

Handover::Handover(int socket, std::string name) : socket_(socket), name_(std::move(name)) {}

Handover::Handover(Handover&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      name_(std::move(other.name_)) {}

Handover::~Handover() {
    if (socket_ >= 0) ::close(socket_);
}

bool Handover::give(int descriptor, Clock::time_point until) {
    while (is_ready(socket_, until)) {
        const int other = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
        if (other < 0) continue;
        const bool is_ours = is_same_user(other);
        if (is_ours) send_descriptor(other, descriptor);
        ::close(other);
        if (is_ours) return true;
    }
    return false;
}

std::variant<int, GroupError> Handover::take(const std::string& name, Clock::time_point until) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (socket < 0) return socket_failure("socket");
    const auto [address, length] = address_of(name);
    std::variant<int, GroupError> taken = GroupError{};
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0)
        taken = socket_failure("connect");
    else if (!is_same_user(socket))
        taken = GroupError{GroupError::Kind::other, "the socket of another process"};
    else
        taken = receive_descriptor(socket, until);
    ::close(socket);
    return taken;
}

}  // namespace ddprun::groups
