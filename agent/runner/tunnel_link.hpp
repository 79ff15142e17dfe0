// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/tls/session.hpp"
#include "rendezvous/tunnel/tunnel.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// One end of a tunnel with its sockets: the encrypted connection to the other end, and one local
/// socket for each stream. Decides nothing but when a socket is closed: the streams are
/// `tunnel::Tunnel`'s.
///
/// A local socket gets all that was sent to it before it gets the end; it is closed when both
/// directions have ended. The end of the connection is the end of every local socket, after what
/// had arrived for it. Without memory for a step of one stream that stream is reset, and without
/// memory for the connection the tunnel ends. Lives on the thread of the stores; kept alive by its
/// own pending operations.
class TunnelLink : public std::enable_shared_from_this<TunnelLink> {
public:
    using Socket = boost::asio::generic::stream_protocol::socket;
    using Stream = tunnel::StreamNumber;

    /// On the side that accepts: the local socket of a new stream, whose other end has this name;
    /// closed if there can be none.
    using Join = std::function<Socket(const std::string& name)>;
    /// Once, with why.
    using OnOver = std::function<void(const Failure& why)>;

    TunnelLink(
        boost::asio::io_context& io,
        tunnel::Tunnel::Side side,
        Join join,
        OnOver on_over,
        tunnel::TunnelBounds bounds = {});
    TunnelLink(const TunnelLink&) = delete;
    TunnelLink& operator=(const TunnelLink&) = delete;

    /// Before or after `start`. Requires: this is the side that opens.
    void carry(Socket socket, std::uint16_t port);
    /// Requires: the session is established; `plain` is what it carried already.
    void start(net::Tcp::socket connection, tls::Session session, std::string plain);
    /// Its streams end, after what had arrived for them.
    void end(const Failure& why);
    /// Everything is closed at once, also what is not written yet; `on_over` is not called any
    /// more.
    void stop();

    bool is_over() const { return is_over_; }
    /// The other end of the connection; empty before `start`.
    const std::string& peer() const { return peer_; }

private:
    struct Local;
    using Locals = std::map<Stream, std::shared_ptr<Local>>;

    /// Runs a step of one stream, and ends it without memory.
    template <class Step>
    void attempt(Stream stream, Step step);
    /// Runs a step of the connection, and ends the tunnel without memory.
    template <class Step>
    void attempt(Step step);
    std::shared_ptr<Local> find(Stream stream) const;
    void add(Stream stream, Socket socket);
    void wait_to_read(Stream stream);
    void on_readable(Stream stream);
    void read_on();
    void deliver(Stream stream, std::string_view data);
    void write_pending(Stream stream, Local& local);
    void stop_writing(Stream stream, Local& local);
    void wait_to_write(Stream stream, Local& local);
    void end_if_all_written(Stream stream, Local& local);
    void drop(Stream stream);
    void reset(Stream stream);

    void read_connection();
    void on_connection_readable();
    void receive(std::string_view bytes);
    void perform(const tunnel::Tunnel::Effect& effect);
    void flush_soon();
    void flush();
    void close_connection();

    boost::asio::io_context& io_;
    Join join_;
    OnOver on_over_;
    tunnel::Tunnel tunnel_;
    Locals locals_;
    /// Not read from until the output is written or credit comes.
    std::vector<Stream> stopped_;
    std::optional<net::Tcp::socket> connection_;
    std::optional<tls::Session> session_;
    std::string peer_;
    /// Decrypted, and less than a frame.
    std::string plain_;
    /// Being written.
    std::string sending_;
    bool will_flush_ = false;
    bool is_over_ = false;
};

/// The same socket as one whose protocol is not known; closed if that fails.
TunnelLink::Socket generic_socket(net::Tcp::socket socket, boost::asio::io_context& io);

}  // namespace ddprun::agent
