// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store_connection.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/server/store_server.hpp"
#include "rendezvous/wire/encoder.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace ddprun::server {
namespace {

constexpr std::size_t worth_keeping_out_bytes = 64 * 1024;
/// A bulk sender yields to the other connections after this much.
constexpr std::size_t bytes_per_turn = 1024 * 1024;

/// Closing a socket with unread bytes resets the connection, and the reset can overtake replies
/// that are on their way.
void discard_unread(int descriptor) {
    std::array<char, 4096> nowhere;
    for (int rounds = 0; rounds < 16; ++rounds)
        if (::recv(descriptor, nowhere.data(), nowhere.size(), MSG_DONTWAIT) <= 0) return;
}

}  // namespace

StoreConnection::StoreConnection(StoreServer& server, ConnectionId id, net::Tcp::socket socket)
    : server_(&server),
      id_(id),
      socket_(std::move(socket)),
      peer_(net::peer_name(socket_)) {}

void StoreConnection::start(const std::string& first_bytes) {
    handshake_.emplace(socket_.get_executor(), limits::handshake_timeout, [this] { on_silence(); });
    decoder_.append(first_bytes);
    handle_requests();
}

void StoreConnection::read() {
    socket_.async_read_some(
        boost::asio::buffer(chunk_),
        [self = shared_from_this()](const error_code& ec, std::size_t bytes) {
            self->on_read(ec, bytes);
        });
}

void StoreConnection::on_read(const error_code& ec, std::size_t bytes) {
    if (is_closed_) return;
    if (ec) return close();
    if (is_finishing_) return read();
    decoder_.append({chunk_.data(), bytes});
    if (bytes == chunk_.size()) read_the_rest();
    handle_requests();
}

void StoreConnection::read_the_rest() {
    auto& big_chunk = server_->big_chunk_;
    for (std::size_t total = 0; total < bytes_per_turn;) {
        const auto received =
            ::recv(socket_.native_handle(), big_chunk.data(), big_chunk.size(), MSG_DONTWAIT);
        // Nothing there, the end or an error: the next regular read will report which.
        if (received <= 0) return;
        const auto bytes = static_cast<std::size_t>(received);
        decoder_.append({big_chunk.data(), bytes});
        if (bytes < big_chunk.size()) return;
        total += bytes;
    }
}

void StoreConnection::handle_requests() {
    // Closing this connection detaches it from the server; what it caused for others is still
    // written.
    auto& server = *server_;
    server.begin_batch();
    while (!is_closed_ && !is_finishing_) {
        is_paused_ = backlog() > limits::max_store_backlog_bytes;
        if (is_paused_) break;
        auto request = decoder_.next();
        if (!request) {
            server.refused(*this, request.error(), decoder_.unread());
            write();
            close();
            break;
        }
        if (!*request) break;
        if (handshake_) handshake_.reset();
        server.received(id_, std::move(**request));
    }
    server.end_batch();
    if (is_closed_) return;
    if (!is_paused_) return read();
    // The socket has accepted it all at once: the others' turn, then this one goes on.
    if (backlog() <= limits::max_store_backlog_bytes) go_on_soon();
}

void StoreConnection::go_on_soon() {
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (!self->is_closed_ && self->is_paused_) self->handle_requests();
    });
}

void StoreConnection::on_silence() {
    if (is_closed_) return;
    server_->refused(*this, {boost::asio::error::timed_out, {}}, decoder_.unread());
    close();
}

bool StoreConnection::enqueue(const wire::Reply& reply) {
    if (is_closed_ || is_finishing_) return false;
    const bool was_empty = out_.empty();
    wire::encode(reply, out_);
    return was_empty;
}

void StoreConnection::write() {
    while (!is_closed_ && !is_waiting_to_write_ && backlog() > 0) {
        const auto sent = ::send(
            socket_.native_handle(),
            out_.data() + written_,
            backlog(),
            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0)
            written_ += static_cast<std::size_t>(sent);
        else if (errno == EAGAIN)
            wait_until_writable();
        else if (errno != EINTR)
            return close();
    }
    if (backlog() == 0) on_all_written();
}

void StoreConnection::wait_until_writable() {
    is_waiting_to_write_ = true;
    socket_.async_wait(
        net::Tcp::socket::wait_write, [self = shared_from_this()](const error_code& ec) {
            if (self->is_closed_) return;
            self->is_waiting_to_write_ = false;
            if (ec) return self->close();
            self->write();
            if (!self->is_paused_ || self->is_closed_) return;
            if (self->backlog() <= limits::max_store_backlog_bytes) self->handle_requests();
        });
}

void StoreConnection::on_all_written() {
    written_ = 0;
    if (out_.capacity() > worth_keeping_out_bytes)
        std::string{}.swap(out_);
    else
        out_.clear();
    if (!is_finishing_ || is_closed_) return;
    error_code ignored;
    socket_.shutdown(net::Tcp::socket::shutdown_send, ignored);
}

void StoreConnection::finish() {
    if (is_closed_ || is_finishing_) return;
    is_finishing_ = true;
    handshake_.reset();
    write();
    // A paused connection has no read outstanding, which is what will see the client close.
    if (std::exchange(is_paused_, false) && !is_closed_) read();
}

void StoreConnection::close() {
    if (is_closed_) return;
    close_socket();
    if (auto* server = std::exchange(server_, nullptr)) server->closed(id_);
}

void StoreConnection::abandon() {
    server_ = nullptr;
    if (!is_closed_) close_socket();
}

void StoreConnection::close_socket() {
    is_closed_ = true;
    handshake_.reset();
    discard_unread(socket_.native_handle());
    net::close(socket_);
}

}  // namespace ddprun::server
