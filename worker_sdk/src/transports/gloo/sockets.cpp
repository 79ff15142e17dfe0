// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/gloo/sockets.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

namespace ddprun::groups {

namespace {

bool is_connected_tcp(int descriptor) {
    int type = 0;
    socklen_t size = sizeof type;
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof peer;
    return ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
           type == SOCK_STREAM &&
           ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
           (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

}  // namespace

Sockets open_sockets() {
    Sockets sockets;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
    if (!folder) return sockets;
    while (const auto* entry = ::readdir(folder.get())) {
        // By name: the descriptor itself may belong to another thread that is closing it.
        struct stat about {};
        if (::fstatat(::dirfd(folder.get()), entry->d_name, &about, 0) == 0 &&
            S_ISSOCK(about.st_mode))
            sockets[::atoi(entry->d_name)] = about.st_ino;
    }
    return sockets;
}

Sockets close_on_exec_all_but(const Sockets& before) {
    Sockets ours;
    for (const auto& [descriptor, inode] : open_sockets()) {
        const auto known = before.find(descriptor);
        if (known != before.end() && known->second == inode) continue;
        const int flags = ::fcntl(descriptor, F_GETFD);
        // A socket that is closed on exec already was opened by another thread, not by Gloo.
        if (!is_connected_tcp(descriptor) || flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
        ::fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
        ours[descriptor] = inode;
    }
    return ours;
}

bool is_any_closed(const Sockets& sockets) {
    return std::any_of(sockets.begin(), sockets.end(), [](const auto& socket) {
        struct stat about {};
        return ::fstat(socket.first, &about) != 0 || about.st_ino != socket.second;
    });
}

}  // namespace ddprun::groups
