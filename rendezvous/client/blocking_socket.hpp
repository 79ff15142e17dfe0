// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"

#include <sys/socket.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace ddprun::client {

/// A connected TCP socket whose every operation ends at a deadline. Signals do not interrupt an
/// operation; a lost peer is an error and causes no SIGPIPE. Uses no Asio, since trainers link
/// this.
class BlockingSocket {
public:
    struct Address {
        sockaddr_storage storage{};
        socklen_t size = 0;

        /// The numeric address; an IPv4-mapped address is unwrapped.
        Endpoint to_endpoint() const;
    };

    /// Every address of a host, both families, in the system's order. The failure names the host.
    static Result<std::vector<Address>> resolve(const Endpoint& endpoint);
    static Result<BlockingSocket> connect(const Address& address, Instant deadline);

    BlockingSocket(BlockingSocket&& other) noexcept;
    BlockingSocket& operator=(BlockingSocket&& other) noexcept;
    ~BlockingSocket();

    /// Sends all bytes or fails; with ETIMEDOUT if the deadline passes first.
    Result<> send(std::string_view bytes, Instant deadline);
    /// Returns received bytes, at least one; empty when the deadline has passed first. The end of
    /// the stream is `Error::server_closed`. Valid until the next call.
    Result<std::string_view> receive(Instant deadline);

private:
    explicit BlockingSocket(int descriptor) : descriptor_(descriptor) {}
    /// False when the deadline has passed first. Polls at least once.
    bool is_ready(short events, Instant deadline) const;

    int descriptor_ = -1;
    std::vector<char> chunk_;
};

}  // namespace ddprun::client
