// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/client/blocking_socket.hpp"
#include "rendezvous/client/client_session.hpp"
#include "rendezvous/wire/message.hpp"

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::client {

/// A connection to a c10d store (ours, or PyTorch's 2.2 or newer) whose calls block. Every call has
/// a deadline, even those in which PyTorch's own client waits for ever.
///
/// For one thread at a time. After an error other than a WAIT that timed out, the connection is
/// closed and every further call fails with the same error: the position in the stream is lost.
/// Signals do not interrupt a call, and a lost server causes no SIGPIPE.
class BlockingClient {
public:
    /// Connects and greets. Tries every address of the host, resolving names each time, until one
    /// answers or `timeout` is over. The failure has the error of the last attempt (name does not
    /// resolve, refused, no answer, not a TCPStore server). Brackets around an IPv6 address are
    /// dropped.
    static Result<BlockingClient> connect(Endpoint endpoint, Duration timeout);

    /// Sends a request that has no reply (SET, APPEND, MULTI_SET, QUEUE_PUSH).
    Result<> send(const wire::Request& request, Duration timeout);

    /// Sends a request and waits for its reply. For WAIT and BARRIER use `wait`.
    template <class Reply>
    Result<Reply> ask(const wire::Request& request, Duration timeout) {
        auto reply = ask_any(request, timeout);
        if (!reply) return std::move(reply).error();
        return std::get<Reply>(std::move(*reply));
    }

    /// Sends a WAIT or BARRIER; true if it ended, false if `timeout` was over first. Then the wait
    /// is cancelled and the connection stays usable.
    Result<bool> wait(const wire::Request& request, Duration timeout);

    /// The numeric address of the server, for messages.
    const Endpoint& server() const { return server_; }

private:
    BlockingClient(Endpoint server, BlockingSocket socket, ClientSession::Greeting greeting);

    static Result<BlockingClient> try_addresses(const Endpoint& endpoint, Instant deadline);
    static Result<BlockingClient> try_address(
        const BlockingSocket::Address& address, Instant deadline);
    static Result<BlockingClient> try_greeting(
        const BlockingSocket::Address& address, ClientSession::Greeting greeting, Instant deadline);

    Result<wire::Reply> ask_any(const wire::Request& request, Duration timeout);
    Result<> send_until(const wire::Request& request, Instant deadline);
    Result<> flush(Instant deadline);
    /// The next reply; none when the deadline has passed first.
    Result<std::optional<wire::Reply>> receive(Instant deadline);
    Result<> cancel_wait();
    Failure fail(error_code code, const std::string& what);

    Endpoint server_;
    BlockingSocket socket_;
    ClientSession session_;
    std::optional<Failure> failure_;
};

}  // namespace ddprun::client
