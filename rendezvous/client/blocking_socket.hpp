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

/// A connected TCP socket whose every step ends at a deadline. Undisturbed by signals; a peer that
/// is gone is an error and not a SIGPIPE. No Asio: trainers link this.
class BlockingSocket {
public:
    struct Address {
        sockaddr_storage storage{};
        socklen_t size = 0;

        /// As numbers, IPv4-mapped unwrapped.
        Endpoint to_endpoint() const;
    };

    /// Every address of a host, both families, in the system's order. The failure names the host.
    static Result<std::vector<Address>> resolve(const Endpoint& endpoint);
    static Result<BlockingSocket> connect(const Address& address, Instant deadline);

    BlockingSocket(BlockingSocket&& other) noexcept;
    BlockingSocket& operator=(BlockingSocket&& other) noexcept;
    ~BlockingSocket();

    /// Sends all of it, or fails; past the deadline with ETIMEDOUT.
    Result<> send(std::string_view bytes, Instant deadline);
    /// What has arrived, at least one byte; empty if the deadline came first. The end of the stream
    /// is `Error::server_closed`. Valid until the next call.
    Result<std::string_view> receive(Instant deadline);

private:
    explicit BlockingSocket(int descriptor) : descriptor_(descriptor) {}
    /// False if the deadline came first. Looks at least once.
    bool is_ready(short events, Instant deadline) const;

    int descriptor_ = -1;
    std::vector<char> chunk_;
};

}  // namespace ddprun::client
