// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/wire/decoder.hpp"
#include "rendezvous/wire/message.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::server {

class StoreServer;

/// One client of a store server: bytes to requests, replies to bytes.
///
/// All requests of one read are handled before anything is written, and their replies leave in one
/// write. A client that does not read its replies is not read from either, so what waits for it is
/// bounded; no other client is affected. Plain callbacks instead of a coroutine: this is the path
/// of every request, and it allocates nothing of its own.
class StoreConnection : public std::enable_shared_from_this<StoreConnection> {
public:
    /// `server` must outlive this or call `abandon` first.
    StoreConnection(StoreServer& server, ConnectionId id, net::Tcp::socket socket);

    /// Begins to serve, with what was read from the socket already.
    void start(const std::string& first_bytes);

    /// Puts the reply into the outgoing queue; it leaves with the next `write`. True if the queue
    /// was empty before.
    bool enqueue(const wire::Reply& reply);
    void write();

    /// Ends the output once the queue is written, and waits for the client to close. Further input
    /// is discarded.
    void finish();
    /// Closes now and reports it to the server.
    void close();
    /// Closes now; the server is not called again.
    void abandon();

    ConnectionId id() const { return id_; }
    const std::string& peer() const { return peer_; }

private:
    void read();
    void on_read(const error_code& ec, std::size_t bytes);
    /// What a read that filled its buffer left in the socket.
    void read_the_rest();
    void handle_requests();
    void go_on_soon();
    void on_silence();
    void wait_until_writable();
    void on_all_written();
    void close_socket();

    std::size_t backlog() const { return out_.size() - written_; }

    StoreServer* server_;
    ConnectionId id_;
    net::Tcp::socket socket_;
    std::string peer_;
    wire::Decoder decoder_;
    std::array<char, 4096> chunk_;
    std::string out_;
    std::size_t written_ = 0;
    std::optional<net::Deadline> handshake_;
    bool is_waiting_to_write_ = false;
    /// Not reading, because too much waits to be written.
    bool is_paused_ = false;
    bool is_finishing_ = false;
    bool is_closed_ = false;
};

}  // namespace ddprun::server
