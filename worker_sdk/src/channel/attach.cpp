// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/channel/attach.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::channel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t magic = 0x314e414843504444;  // "DDPCHAN1"
constexpr std::uint64_t version_and_size = (std::uint64_t{page_bytes} << 32U) | 1U;
constexpr auto time_limit = std::chrono::milliseconds{100};

bool wait_for(int socket, short what, Clock::time_point until) {
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
        if (left <= 0) return false;
        pollfd entry{socket, what, 0};
        const int ready = ::poll(&entry, 1, static_cast<int>(left));
        if (ready >= 0 || errno != EINTR) return ready == 1;
    }
}

/// The first byte of an abstract name is zero; `way` has an @ there.
int connect_to(std::string_view name) {
    sockaddr_un address{};
    if (name.size() < 2 || name.size() > sizeof address.sun_path || name.front() != '@') return -1;
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return -1;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    // Connecting ends at once, or fails because the queue of a stopped agent is full.
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0) return socket;
    ::close(socket);
    return -1;
}

/// The descriptor that came with exactly `attached 1`; -1 after any other answer.
int receive_page(int socket, Clock::time_point until) {
    if (!wait_for(socket, POLLIN, until)) return -1;
    std::array<char, 64> bytes{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> room{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    const auto size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (size <= 0) return -1;
    std::vector<int> came;
    for (auto* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        const auto count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int descriptor = -1;
            std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
            came.push_back(descriptor);
        }
    }
    const std::string_view line(bytes.data(), static_cast<std::size_t>(size));
    if (came.size() == 1 && line == "attached 1\n") return came.front();
    for (const int descriptor : came)
        ::close(descriptor);
    return -1;
}

/// Null when this library cannot use the page. Memory that could shrink would kill its readers.
void* map_page(int descriptor) {
    struct stat about {};
    const int seals = ::fcntl(descriptor, F_GET_SEALS);
    if (::fstat(descriptor, &about) != 0 || about.st_size != page_bytes || seals < 0 ||
        (seals & F_SEAL_SHRINK) == 0)
        return nullptr;
    void* memory = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) return nullptr;
    std::array<std::uint64_t, 2> head{};
    std::memcpy(head.data(), memory, sizeof head);
    if (head[0] == magic && head[1] == version_and_size) return memory;
    ::munmap(memory, page_bytes);
    return nullptr;
}

}  // namespace

Attachment attach(const char* way) {
    if (way == nullptr) return {};
    const auto until = Clock::now() + time_limit;
    const std::string_view text(way);
    const auto slash = text.rfind('/');
    if (slash == std::string_view::npos) return {};
    const int socket = connect_to(text.substr(0, slash));
    if (socket < 0) return {};
    const auto greeting = "ddprun-worker/1 " + std::string{text.substr(slash + 1)} + ' ' +
                          std::to_string(::getpid()) + " c\n";
    Attachment attachment{nullptr, socket};
    if (::send(socket, greeting.data(), greeting.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(greeting.size())) {
        const int descriptor = receive_page(socket, until);
        if (descriptor >= 0) {
            attachment.words = map_page(descriptor);
            ::close(descriptor);
        }
    }
    if (attachment.words != nullptr) return attachment;
    ::close(socket);
    return {};
}

}  // namespace ddprun::channel
