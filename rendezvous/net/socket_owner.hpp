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
        /// It has closed its end already: what the kernel says of such a socket is no user's name.
        /// Or there is no descriptor to ask the kernel with: the caller may call again.
        gone,
        /// The kernel says nothing, or names a user that has no number in this user namespace.
        unknown,
    };
    Kind kind = Kind::unknown;
    uid_t uid = 0;
};

/// Asks the kernel for one socket (sock_diag), or where it does not answer reads its table of
/// connections. Requires: both ends are on this machine.
PeerOwner peer_owner(const Tcp::socket& socket);

/// The second way alone: for its test.
PeerOwner peer_owner_by_table(const Tcp::socket& socket);

}  // namespace ddprun::net
