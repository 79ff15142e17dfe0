// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// TCP as this project uses it: every socket is closed on exec and sends without delay, errors are
/// values that name the peer, and a listener behaves the same on every kernel.
namespace ddprun::net {

using Tcp = boost::asio::ip::tcp;

/// Completion token of every asynchronous call: (error, values...) instead of exceptions.
inline constexpr auto as_values = boost::asio::as_tuple(boost::asio::use_awaitable);

/// Listens on `host`:`port`. An empty host is the dual-stack wildcard (IPv4 only where the kernel
/// has no IPv6); otherwise a numeric address. Port 0 takes a free one. Uses SO_REUSEADDR, never
/// SO_REUSEPORT. An address in use may be reported by listen(2) as well as by bind(2). Connections
/// that are accepted end once their peer has vanished for `limits::caller_keepalive_*`.
Result<Tcp::acceptor> listen(
    boost::asio::io_context& io, const std::string& host, std::uint16_t port);

/// Takes over a socket that was inherited from the parent and listens already. The context of a
/// failure names the descriptor and the error.
Result<Tcp::acceptor> take_listening(boost::asio::io_context& io, int descriptor);

/// How many callers may wait to be accepted; empty where the kernel does not report it.
std::optional<int> granted_backlog(Tcp::acceptor& acceptor);

/// How many callers the kernel has dropped at this socket so far, nearly always because its backlog
/// was full. A dropped caller tries again after a second or more.
std::uint32_t dropped_callers(Tcp::acceptor& acceptor);

/// Returns all addresses of a host name or numeric text, both families. The context of a failure
/// says "resolve NAME". Runs in Asio's resolver thread, so the caller's thread never blocks.
boost::asio::awaitable<Result<std::vector<Tcp::endpoint>>> resolve(Endpoint endpoint);

/// Tries the addresses in order, each for `limits::connect_attempt_timeout`.
boost::asio::awaitable<Result<Tcp::socket>> connect(std::vector<Tcp::endpoint> addresses);

/// Marks an accepted or connected socket: closed on exec, TCP_NODELAY.
void prepare(Tcp::socket& socket);

/// From now on the connection ends within about half a minute when the peer vanishes without
/// closing (no power, no network), even when no data is in flight.
void notice_lost_peer(Tcp::socket& socket);

/// The smallest network whose addresses may all belong to one caller: an IPv4 address, or
/// "2001:db8:0:1::/64".
std::string peer_network(const Tcp::socket& socket);

/// Numeric address without brackets, IPv4-mapped unwrapped; "?" when the socket is not connected.
std::string local_address(const Tcp::socket& socket);
std::string peer_address(const Tcp::socket& socket);
/// For messages: "10.0.0.2:51234".
std::string peer_name(const Tcp::socket& socket);

/// Closes without an error and without waiting.
void close(Tcp::socket& socket);

/// Name of the process that listens on this port of this machine ("python3 (pid 412)"), if /proc
/// shows it; empty otherwise. For the message about a port in use.
std::string listener_on_port(std::uint16_t port);

}  // namespace ddprun::net
