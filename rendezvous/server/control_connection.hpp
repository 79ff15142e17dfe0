// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/tls/session.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::server {

/// Determines how the other end of a control connection is authorized.
struct ControlAccess {
    /// The TLS session in which it proves the secret.
    std::optional<tls::Session> session = std::nullopt;
    /// The other end does not encrypt, and this server requires it.
    bool is_refused = false;
    /// The tenant whose key the session has found, which is proved once the session is established;
    /// empty: the server has no tenants. Null: there is no session.
    std::shared_ptr<const std::string> tenant = nullptr;
};

/// The server's end of one agent's control connection: preamble, hello, then frames both ways; all
/// inside TLS when the server has a secret. Instead of the preamble an agent may ask this process
/// for its vote: one line each way (rendezvous/voters/FORMAT.md), and the connection ends.
///
/// It handles bytes and their sequence only; the coordinator decides what a message means. It is
/// bounded in both directions. A frame that is too long or cannot be decoded is answered with
/// `error`, then the connection ends. A queue over its bound ends the connection (the agent comes
/// back and resumes). Preamble and first frame have a deadline. Used on the thread of its socket.
class ControlConnection : public std::enable_shared_from_this<ControlConnection> {
public:
    /// A frame, shared by all connections that it is sent to.
    using Frame = std::shared_ptr<const std::string>;

    struct Hooks {
        /// The preamble was valid, and hello is queued.
        std::function<void()> on_greeted;
        std::function<void(control::AgentMessage)> on_message;
        /// The last callback, called once; the reason is for the log.
        std::function<void(std::string reason)> on_ended;
        /// The memory that the connection holds has changed.
        std::function<void(std::size_t before, std::size_t now)> on_held = {};
        /// There is no memory for its messages; the owner must end it.
        std::function<void()> on_no_memory = {};
        /// The other end of an encrypted connection has proved the secret.
        std::function<void()> on_established = {};
        /// Returns the answer's line to a request for a vote, without `voters::vote_protocol`;
        /// empty: it is not valid.
        std::function<std::string(std::string_view request)> on_vote = {};
    };

    explicit ControlConnection(net::Tcp::socket socket, ControlAccess access = {});

    /// `first_bytes` have already been read. Requires: called once.
    void start(std::string first_bytes, Duration handshake_timeout, Hooks hooks);

    void send(Frame frame);
    /// Nothing more will be sent: the queue is written, then the connection ends. Further input is
    /// discarded.
    void finish(std::string reason);
    /// Ends the connection now.
    void abort(std::string reason);
    /// Ends the connection now because it holds too much.
    void abort_over_bound(std::string reason);

    const std::string& peer() const { return peer_; }
    const net::Tcp::socket& socket() const { return socket_; }
    /// What the other end has begun with.
    enum class Begun : std::uint8_t { nothing, greeting, vote };
    Begun begun() const { return begun_; }
    /// Empty: the server has no tenants. Requires: it has begun.
    std::string tenant() const { return access_.tenant ? *access_.tenant : std::string{}; }
    /// Requires: it is greeted.
    bool has_proved_secret() const { return access_.session.has_value(); }
    void notice_lost_peer() { net::notice_lost_peer(socket_); }
    /// The memory of unsent messages and of an incomplete received one. A message to several
    /// connections counts once for each of them.
    std::size_t held_bytes() const { return held_bytes_; }
    bool was_over_bound() const { return was_over_bound_; }

private:
    boost::asio::awaitable<void> serve(std::string first_bytes);
    void begin_handshake(Duration timeout);
    void receive(std::string_view bytes);
    void understand(std::string_view bytes);
    void begin(std::string_view bytes);
    void greet();
    void hear_vote();
    /// The peer closed its side. What `finish` left in the queue is still written.
    void ended_by_peer(const error_code& ec);
    std::vector<boost::asio::const_buffer> next_buffers(std::size_t frame_count);
    void write();
    void wrote(const error_code& ec, std::size_t frame_count);
    void conclude();
    void remember(std::string reason);
    /// Reports how much memory it holds now.
    void count();

    net::Tcp::socket socket_;
    std::string peer_;
    ControlAccess access_;
    Hooks hooks_;
    Duration handshake_timeout_{};
    std::string greeting_;
    control::AgentMessageDecoder decoder_;
    /// Active until the first message is decoded.
    std::optional<net::Deadline> handshake_;
    /// Active after `finish`.
    std::optional<net::Deadline> flush_;

    std::deque<Frame> queue_;
    std::size_t queued_bytes_ = 0;
    /// The bytes being written, when the connection is encrypted.
    std::string encrypted_;
    std::size_t held_bytes_ = 0;
    bool is_writing_ = false;
    Begun begun_ = Begun::nothing;
    bool is_finishing_ = false;
    bool is_concluded_ = false;
    bool was_over_bound_ = false;
    /// Why the connection ends; the first reason counts.
    std::string reason_;
};

}  // namespace ddprun::server
