// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// Determines which worker has which connection to the round's store, from the kernel's texts.
/// Pure.
namespace ddprun::agent {

/// Sockets of established connections to one port of any address: from the inode to the socket's
/// own end, "10.0.0.2:51234".
using SocketTable = std::map<std::uint64_t, std::string>;

/// Adds the connections in a text of /proc/net/tcp or tcp6.
void add_connections_to(std::uint16_t port, std::string_view proc_net_tcp, SocketTable& table);

/// A connection of any process: established, or being established (SYN_SENT).
struct TcpConnection {
    std::uint64_t inode = 0;
    Endpoint remote;
    bool is_established = false;
    bool operator==(const TcpConnection&) const = default;
};

/// The connections in a text of /proc/net/tcp or tcp6. Listening sockets and sockets without a
/// process are left out.
std::vector<TcpConnection> tcp_connections(std::string_view proc_net_tcp);

/// The inode in the target of a link in /proc/PID/fd, "socket:[1234]"; 0: it is no socket.
std::uint64_t socket_inode(std::string_view link);

/// The sockets that were found for one worker and its descendants.
struct WorkerSockets {
    int local_rank = 0;
    std::set<std::uint64_t> inodes;
    /// Every descriptor of every process was seen.
    bool is_complete = false;
};

/// A worker whose sockets are not all known is in no list, unless one of its sockets is in the
/// table.
control::StoreClients store_clients(
    int round, const std::vector<WorkerSockets>& workers, const SocketTable& table);

/// The same for workers whose connections go through a tunnel. They get the names that the store
/// uses for its streams: `tunnel`, a slash, and the port at the worker's end.
void name_by_tunnel(control::StoreClients& clients, const std::string& tunnel);

}  // namespace ddprun::agent
