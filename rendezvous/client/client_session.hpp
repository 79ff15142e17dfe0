// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/wire/message.hpp"
#include "rendezvous/wire/reply_decoder.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::client {

/// The client's end of a connection to a c10d store, without the socket: turns requests into bytes,
/// and bytes into replies in the order of the requests.
///
/// The first bytes are VALIDATE and, unless switched off, PING: servers before PyTorch 2.5 close
/// the connection on PING. The pong is checked here and is not reported as a reply.
///
/// A WAIT is cancelled by CANCEL_WAIT, which may cross with the end of the wait. The replies to
/// both are `StopWaiting` and `WaitCanceled`, or `WaitCanceled` alone; after that no reply is
/// awaited any more.
class ClientSession {
public:
    enum class Greeting { validate_and_ping, validate };

    explicit ClientSession(Greeting greeting, std::uint32_t nonce = 0);

    void send(const wire::Request& request);

    /// Bytes for the server. `sent` removes the sent bytes.
    std::string_view output() const { return std::string_view{output_}.substr(sent_); }
    void sent(std::size_t bytes);

    void receive(std::string_view bytes) { decoder_.append(bytes); }
    /// The next reply, or nothing yet, or an error, after which the connection cannot be used.
    /// Bytes that no request awaits are an error, since the peer is no store.
    Result<std::optional<wire::Reply>> next();

    /// The greeting was answered, or needs no answer.
    bool is_greeted() const { return !pong_; }
    /// The number of requests whose replies have not arrived yet.
    std::size_t awaited_count() const { return awaited_.size(); }

private:
    wire::ReplyDecoder decoder_;
    std::deque<wire::Awaited> awaited_;
    std::optional<std::uint32_t> pong_;
    std::string output_;
    std::size_t sent_ = 0;
};

}  // namespace ddprun::client
