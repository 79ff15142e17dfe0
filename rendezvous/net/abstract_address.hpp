// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace ddprun::net {

/// The name of a local socket in the abstract namespace (unix(7)): it is no file, and it disappears
/// with its process. A name longer than `most_bytes` is cut.
struct AbstractAddress {
    static constexpr std::size_t most_bytes = sizeof(sockaddr_un::sun_path) - 1;

    explicit AbstractAddress(std::string_view name)
        : size(static_cast<socklen_t>(
              offsetof(sockaddr_un, sun_path) + 1 + std::min(name.size(), most_bytes))) {
        address.sun_family = AF_UNIX;
        // The first byte stays zero.
        std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), most_bytes));
    }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

    sockaddr_un address{};
    socklen_t size;
};

}  // namespace ddprun::net
