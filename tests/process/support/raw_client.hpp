// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/codec.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::test {

/// A TCP client that sends arbitrary bytes, valid or not. Blocking; an operation that takes longer
/// than `fact_timeout` throws.
class RawClient {
public:
    explicit RawClient(std::uint16_t port, const std::string& address = "127.0.0.1");
    ~RawClient();
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    static bool can_connect(std::uint16_t port, const std::string& address = "127.0.0.1");

    RawClient& say(std::string_view bytes);
    /// Returns this many bytes; fewer if the server ends the connection first.
    std::string hear(std::size_t bytes);
    /// Everything until the server ends the connection.
    std::string hear_to_the_end();
    /// Whether bytes, or the end, have come that were not heard.
    bool can_hear() const;
    /// Whether the connection was ended by a reset.
    bool was_reset() const { return was_reset_; }
    /// Ends the sending direction; the other one stays open.
    void end_of_speech();

    /// One control frame.
    RawClient& say_message(const control::AgentMessage& message);
    /// The next control frame. Throws if there is none.
    control::ServerMessage hear_message();

    /// The address of this end, as an agent reports it: "127.0.0.1:51234".
    std::string socket_addr() const;

private:
    /// Returns false at the end.
    bool hear_more();

    int socket_ = -1;
    bool was_reset_ = false;
    std::string heard_;
    control::ServerMessageDecoder decoder_;
};

}  // namespace ddprun::test
