// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"

#include <sys/types.h>

#include <cstdint>

/// Which user of this machine is at the other end of a connection over the loopback interface.
namespace ddprun::net {

struct PeerOwner {
    enum class Kind : std::uint8_t {
        this_user,   ///< or root
        other_user,  ///< `uid`
        /// The peer has already closed its end, so the user that the kernel reports for it is not
        /// the peer's. Or no descriptor is left to query the kernel; then the caller may retry.
        gone,
        /// The kernel reports nothing, or a user without a uid in this user namespace.
        unknown,
    };
    Kind kind = Kind::unknown;
    uid_t uid = 0;
};

/// Queries the kernel for one socket (sock_diag); if the kernel does not answer, reads its table of
/// connections. Requires: both ends are on this machine.
PeerOwner peer_owner(const Tcp::socket& socket);

/// Uses only the table; for tests.
PeerOwner peer_owner_by_table(const Tcp::socket& socket);

}  // namespace ddprun::net
