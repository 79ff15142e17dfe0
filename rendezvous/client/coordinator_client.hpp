// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/connect_error.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/tls/keys.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::client {

/// One control connection of an agent to the rendezvous server, from the attempt to connect until
/// the end. Each attempt is a separate object. Two may exist at the same time (a second connection
/// while the first is silent).
///
/// A shell: the agent machine decides what is sent, when to try again and what an answer means.
/// Used on the thread of its `io_context`; hooks are called there, never from inside one of its own
/// functions. Destroying it (even inside a hook) has the effect of `end`.
class CoordinatorClient {
public:
    using ConnectError = control::ConnectError;
    struct Closed {
        ConnectError error;
        /// One sentence with the endpoint or peer: "connect to 10.0.0.2:29400: Connection refused".
        std::string reason;
        bool operator==(const Closed&) const = default;
    };
    /// Addresses are numeric, IPv4-mapped unwrapped.
    struct Opened {
        std::string local_addr;   ///< this end: "10.0.0.3"
        std::string socket_addr;  ///< the same with port: "10.0.0.3:51234"
        std::string peer_addr;    ///< the server's end
        int version;              ///< the newest version of the protocol that both ends support
    };
    struct Hooks {
        /// The socket is connected, and nothing is written yet: now a duplicate can be passed to
        /// the keeper. The hook may only duplicate the descriptor.
        std::function<void(int descriptor)> on_connected;
        /// The server sent hello: messages may be sent.
        std::function<void(Opened)> on_opened;
        std::function<void(control::ServerMessage)> on_message;
        /// Called once, as the last hook. Not called after `end` or destruction.
        std::function<void(Closed)> on_closed;
    };

    /// With this the connection is encrypted, and neither end sends frames before both have proved
    /// that they have the key.
    struct Security {
        tls::Key key;
        /// The source of the secret, for messages.
        std::string secret_name;
    };

    /// Starts the attempt: resolve, connect, preamble, hello. Requires: every hook is set.
    CoordinatorClient(
        boost::asio::io_context& io,
        Endpoint endpoint,
        Hooks hooks,
        Duration greeting_timeout = limits::connect_attempt_timeout,
        std::optional<Security> security = std::nullopt);
    ~CoordinatorClient();
    CoordinatorClient(const CoordinatorClient&) = delete;
    CoordinatorClient& operator=(const CoordinatorClient&) = delete;

    bool is_open() const;

    /// Queues a message. When the queue exceeds its bound, the connection is closed (`lost`).
    /// Requires: `on_opened` was called. Does nothing after the end.
    void send(const control::AgentMessage& message);

    /// Ends the connection deliberately: queued messages are written, then shutdown(SHUT_RDWR),
    /// which the server notices even while the keeper holds a duplicate. No hook is called any
    /// more.
    void end();

private:
    class Session;
    std::shared_ptr<Session> session_;
};

/// "name does not resolve", "refused", ...
std::string_view name_of(CoordinatorClient::ConnectError error);

}  // namespace ddprun::client
