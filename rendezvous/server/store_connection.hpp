// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/wire/decoder.hpp"
#include "rendezvous/wire/message.hpp"
#include "rendezvous/wire/outgoing.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::server {

class StoreServer;

/// One client of a store server: turns bytes into requests, and replies into bytes.
///
/// Connections take turns: one read of at most `limits::store_turn_bytes`, then the others. All
/// requests of one read are handled before anything is written, and their replies leave in one
/// write. A client that does not read its replies is not read from either, so its backlog is
/// bounded, and no other client is affected. The socket is not an Asio socket (StorePoller): every
/// request takes this path, which allocates nothing of its own.
class StoreConnection : public std::enable_shared_from_this<StoreConnection> {
public:
    /// `server` must outlive this object or call `abandon` first.
    StoreConnection(
        StoreServer& server, ConnectionId id, net::Tcp::socket socket, std::string peer);
    ~StoreConnection();
    StoreConnection(const StoreConnection&) = delete;
    StoreConnection& operator=(const StoreConnection&) = delete;

    /// Starts serving. `first_bytes` have already been read from the socket.
    void start(const std::string& first_bytes);
    /// Handles epoll events of the socket. True if a few bytes were read, and no more were there.
    bool on_ready(std::uint32_t events);

    /// Puts the reply into the outgoing queue; it leaves with the next `write`. True if the queue
    /// was empty before.
    bool enqueue(const wire::Reply& reply);
    void write();

    /// Ends the output once the queue is written, and waits until the client closes. Further input
    /// is discarded.
    void finish();
    /// Closes now and reports it to the server.
    void close();
    /// Closes now; the server is not called again.
    void abandon();

    ConnectionId id() const { return id_; }
    const std::string& peer() const { return peer_; }
    /// The store's address: "10.0.0.1:29400".
    std::string local() const;
    /// The memory of an incomplete request and of unread replies.
    std::size_t held_bytes() const { return held_bytes_; }
    /// The time since which the client has read no byte of its unread replies; none if there are
    /// none.
    std::optional<Instant> unread_since() const { return unread_since_; }

private:
    /// Runs a step of this connection. If memory runs out, only this connection ends.
    template <class Step>
    void attempt(Step step);
    /// Returns as `on_ready`.
    bool read();
    void handle_requests();
    /// Registers the awaited events with the poller.
    void watch();
    void refuse_encryption();
    void go_on_soon();
    void on_silence();
    void wait_until_writable();
    void on_writable();
    /// Returns as send(2): how many bytes the socket has accepted.
    ssize_t send_some();
    void on_all_written();
    void close_socket();
    /// Reports to the server how much memory this connection holds now.
    void count();

    std::size_t backlog() const { return out_.size(); }

    StoreServer* server_;
    ConnectionId id_;
    std::string peer_;
    /// -1 once it is closed.
    int socket_ = -1;
    std::uint32_t watched_events_ = 0;
    wire::Decoder decoder_;
    wire::Outgoing out_;
    std::optional<net::Deadline> handshake_;
    std::size_t held_bytes_ = 0;
    std::optional<Instant> unread_since_;
    bool is_waiting_to_write_ = false;
    /// The connection is not read, because too much output is pending.
    bool is_paused_ = false;
    bool is_finishing_ = false;
    bool is_closed_ = false;
};

}  // namespace ddprun::server
