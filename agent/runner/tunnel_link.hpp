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
/// socket for each stream. This class only decides when a socket is closed; `tunnel::Tunnel`
/// manages the streams.
///
/// A local socket gets all bytes sent to it, then the end; it is closed when both directions have
/// ended. When the connection ends, every local socket is closed after its received bytes are
/// written. If memory runs out in a step of one stream, that stream is reset; in a step of the
/// connection, the tunnel ends. Lives on the stores' thread; its pending operations keep it alive.
class TunnelLink : public std::enable_shared_from_this<TunnelLink> {
public:
    using Socket = boost::asio::generic::stream_protocol::socket;
    using Stream = tunnel::StreamNumber;

    /// For the accepting side: returns the local socket of a new stream, or a closed socket if none
    /// can be made. `name`: the stream's other end.
    using Join = std::function<Socket(const std::string& name)>;
    /// Called once, with the reason.
    using OnOver = std::function<void(const Failure& why)>;

    TunnelLink(
        boost::asio::io_context& io,
        tunnel::Tunnel::Side side,
        Join join,
        OnOver on_over,
        tunnel::TunnelBounds bounds = {});
    TunnelLink(const TunnelLink&) = delete;
    TunnelLink& operator=(const TunnelLink&) = delete;

    /// Adds a stream, before or after `start`. Requires: this is the side that opens streams.
    void carry(Socket socket, std::uint16_t port);
    /// `plain`: the bytes that the session has decrypted already. Requires: the session is
    /// established.
    void start(net::Tcp::socket connection, tls::Session session, std::string plain);
    /// Ends the tunnel. Each stream ends after its received bytes are written.
    void end(const Failure& why);
    /// Closes everything at once and drops unwritten bytes; `on_over` is no longer called.
    void stop();

    bool is_over() const { return is_over_; }
    /// The address of the connection's other end; empty before `start`.
    const std::string& peer() const { return peer_; }

private:
    struct Local;
    using Locals = std::map<Stream, std::shared_ptr<Local>>;

    /// Runs a step of one stream; resets the stream if memory runs out.
    template <class Step>
    void attempt(Stream stream, Step step);
    /// Runs a step of the connection; ends the tunnel if memory runs out.
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
    /// Streams that are not read until the output is written or credit arrives.
    std::vector<Stream> stopped_;
    std::optional<net::Tcp::socket> connection_;
    std::optional<tls::Session> session_;
    std::string peer_;
    /// Decrypted bytes of an incomplete frame.
    std::string plain_;
    /// The bytes that are being written.
    std::string sending_;
    bool will_flush_ = false;
    bool is_over_ = false;
};

/// The same socket with Asio's generic protocol; closed if the change of protocol fails.
TunnelLink::Socket generic_socket(net::Tcp::socket socket, boost::asio::io_context& io);

}  // namespace ddprun::agent
