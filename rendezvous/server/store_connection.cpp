// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store_connection.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/server/store_server.hpp"
#include "rendezvous/wire/encoder.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace ddprun::server {
namespace {

constexpr std::size_t worth_keeping_out_bytes = 64 * 1024;

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

template <class Step>
void StoreConnection::attempt(Step step) {
    auto& server = *server_;
    try {
        step();
    } catch (const std::bad_alloc&) {
        if (!is_closed_) server.close_without_memory(*this, "no memory for its requests");
        server.end_batch();
    }
}

void StoreConnection::start(const std::string& first_bytes) {
    attempt([&] {
        handshake_.emplace(
            socket_.get_executor(), limits::handshake_timeout, [this] { on_silence(); });
        decoder_.append(first_bytes);
        handle_requests();
    });
}

void StoreConnection::read() {
    socket_.async_read_some(
        boost::asio::buffer(first_),
        [self = shared_from_this()](const error_code& ec, std::size_t bytes) {
            if (self->is_closed_) return;
            self->attempt([&] { self->on_read(ec, bytes); });
        });
}

void StoreConnection::on_read(const error_code& ec, std::size_t bytes) {
    if (ec) return close();
    if (is_finishing_) return read();
    decoder_.borrow(whole_turn(bytes));
    handle_requests();
}

std::string_view StoreConnection::whole_turn(std::size_t first_bytes) {
    if (first_bytes < first_.size()) return {first_.data(), first_bytes};
    auto& turn = server_->turn_;
    std::copy(first_.begin(), first_.end(), turn.begin());
    const auto received = ::recv(
        socket_.native_handle(),
        turn.data() + first_bytes,
        turn.size() - first_bytes,
        MSG_DONTWAIT);
    // Nothing there, the end or an error: the next regular read will report which.
    return {turn.data(), first_bytes + static_cast<std::size_t>(std::max<ssize_t>(received, 0))};
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
    decoder_.own();
    count();
    server.end_batch();
    if (is_closed_) return;
    if (!is_paused_) return read();
    // The socket has accepted it all at once: the others' turn, then this one goes on.
    if (backlog() <= limits::max_store_backlog_bytes) go_on_soon();
}

void StoreConnection::go_on_soon() {
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (self->is_closed_ || !self->is_paused_) return;
        self->attempt([&] { self->handle_requests(); });
    });
}

void StoreConnection::on_silence() {
    if (is_closed_) return;
    server_->refused(*this, {boost::asio::error::timed_out, {}}, decoder_.unread());
    close();
}

bool StoreConnection::enqueue(const wire::Reply& reply) {
    if (is_closed_ || is_finishing_) return false;
    const bool was_empty = backlog() == 0;
    if (was_empty) out_.swap_buffer(server_->spare_out_);
    wire::encode(reply, out_);
    return was_empty;
}

ssize_t StoreConnection::send_some() {
    constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const auto front = out_.front();
    if (front.size() == backlog())
        return ::send(socket_.native_handle(), front.data(), front.size(), flags);
    std::array<std::string_view, 64> parts;
    std::array<iovec, parts.size()> vectors;
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = out_.gather(parts);
    for (std::size_t i = 0; i < message.msg_iovlen; ++i)
        vectors[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
    return ::sendmsg(socket_.native_handle(), &message, flags);
}

void StoreConnection::write() {
    if (is_closed_) return;
    while (!is_waiting_to_write_ && backlog() > 0) {
        const auto sent = send_some();
        if (sent >= 0) {
            out_.consume(static_cast<std::size_t>(sent));
            unread_since_.reset();
        } else if (errno == EAGAIN)
            wait_until_writable();
        else if (errno != EINTR)
            return close();
    }
    if (backlog() == 0) on_all_written();
    count();
}

void StoreConnection::wait_until_writable() {
    const auto now = server_->watch_unread();
    if (!unread_since_) unread_since_ = now;
    socket_.async_wait(
        net::Tcp::socket::wait_write, [self = shared_from_this()](const error_code& ec) {
            if (self->is_closed_) return;
            self->is_waiting_to_write_ = false;
            if (ec) return self->close();
            self->attempt([&] {
                self->write();
                if (!self->is_paused_ || self->is_closed_) return;
                if (self->backlog() <= limits::max_store_backlog_bytes) self->handle_requests();
            });
        });
    is_waiting_to_write_ = true;
}

void StoreConnection::on_all_written() {
    // The buffer goes on to the next connection that is answered: an idle one has none.
    std::string done;
    out_.swap_buffer(done);
    auto& spare = server_->spare_out_;
    if (done.capacity() > spare.capacity() && done.capacity() <= worth_keeping_out_bytes)
        spare = std::move(done);
    if (!is_finishing_) return;
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

std::string StoreConnection::local() const {
    error_code ec;
    const auto address = socket_.local_endpoint(ec);
    return net::local_address(socket_) + ":" + std::to_string(ec ? 0 : address.port());
}

void StoreConnection::count() {
    if (is_closed_) return;
    const auto now = decoder_.held_bytes() + out_.held_bytes();
    server_->holds(held_bytes_, now);
    held_bytes_ = now;
}

void StoreConnection::close_socket() {
    if (server_ != nullptr) server_->holds(held_bytes_, 0);
    held_bytes_ = 0;
    is_closed_ = true;
    handshake_.reset();
    discard_unread(socket_.native_handle());
    net::close(socket_);
}

}  // namespace ddprun::server
