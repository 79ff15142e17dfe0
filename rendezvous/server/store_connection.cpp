// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store_connection.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/memory_reserve.hpp"
#include "rendezvous/server/store_server.hpp"
#include "rendezvous/tls/session.hpp"
#include "rendezvous/wire/encoder.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <tuple>
#include <utility>

namespace ddprun::server {
namespace {

constexpr std::size_t worth_keeping_out_bytes = 64 * 1024;
/// A client that sends at most this many bytes at a time probably waits for the answer.
constexpr std::size_t dialogue_bytes = 4096;

/// Closing a socket with unread bytes resets the connection, and the reset can overtake replies
/// that are on their way.
void discard_unread(int descriptor) {
    std::array<char, 4096> nowhere;
    for (int rounds = 0; rounds < 16; ++rounds)
        if (::recv(descriptor, nowhere.data(), nowhere.size(), MSG_DONTWAIT) <= 0) return;
}

}  // namespace

StoreConnection::StoreConnection(
    StoreServer& server, ConnectionId id, net::Tcp::socket socket, std::string peer)
    : server_(&server),
      id_(id),
      peer_(std::move(peer)),
      decoder_(server.accepted_) {
    error_code ec;
    const int descriptor = socket.release(ec);
    if (!ec) socket_ = descriptor;
}

StoreConnection::~StoreConnection() {
    if (socket_ >= 0) ::close(socket_);
}

template <class Step>
void StoreConnection::attempt(Step step) {
    auto& server = *server_;
    try {
        step();
        if (!keep_memory_reserve()) throw std::bad_alloc{};
    } catch (const std::bad_alloc&) {
        if (!is_closed_) server.close_without_memory(*this, "no memory for its requests");
        server.end_batch();
    }
}

void StoreConnection::start(const std::string& first_bytes) {
    attempt([&] {
        // When there is no descriptor for the poller, the client is turned away, as by the
        // listener.
        if (!server_->poller_.add(socket_, id_.value)) return close();
        watched_events_ = EPOLLIN;
        handshake_.emplace(
            server_->executor(), limits::handshake_timeout, [this] { on_silence(); });
        decoder_.append(first_bytes);
        handle_requests();
    });
}

bool StoreConnection::on_ready(std::uint32_t events) {
    bool is_dialogue = false;
    attempt([&] {
        const bool has_ended = (events & (EPOLLERR | EPOLLHUP)) != 0;
        if (is_waiting_to_write_ && (has_ended || (events & EPOLLOUT) != 0)) on_writable();
        if (!is_closed_ && !is_paused_) {
            if (has_ended || (events & EPOLLIN) != 0) is_dialogue = read();
        } else if (has_ended) {
            close();
        }
    });
    return is_dialogue;
}

bool StoreConnection::read() {
    auto& turn = server_->turn_;
    const auto received = ::recv(socket_, turn.data(), turn.size(), MSG_DONTWAIT);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (received <= 0) {
        close();
        return false;
    }
    const auto size = static_cast<std::size_t>(received);
    if (!is_finishing_) {
        decoder_.borrow({turn.data(), size});
        handle_requests();
    }
    return size <= dialogue_bytes;
}

void StoreConnection::handle_requests() {
    // A copy: closing this connection detaches it from the server, but the effects for other
    // clients must still be written.
    auto& server = *server_;
    server.begin_batch();
    store::Store::Event event{std::in_place_type<store::Store::Received>};
    auto& received = std::get<store::Store::Received>(event);
    while (!is_closed_ && !is_finishing_) {
        is_paused_ = backlog() > limits::max_store_backlog_bytes;
        if (is_paused_) break;
        const auto has_request = decoder_.next(received.request);
        if (!has_request) {
            server.refused(*this, has_request.error(), decoder_.unread());
            write();
            if (!is_closed_ && handshake_) refuse_encryption();
            close();
            break;
        }
        if (!*has_request) break;
        if (handshake_) handshake_.reset();
        received.from = id_;
        server.received(std::move(event));
    }
    decoder_.own();
    count();
    server.end_batch();
    if (is_closed_) return;
    watch();
    // The socket has accepted all output at once, so no event will continue this connection. It
    // continues after the other connections had their turn.
    if (is_paused_ && backlog() <= limits::max_store_backlog_bytes) go_on_soon();
}

/// Sends an alert to a node that expects a members-only store here, instead of closing without a
/// reason.
void StoreConnection::refuse_encryption() {
    constexpr char tls_handshake = '\x16';
    const auto& answer = tls::no_encryption_here;
    if (!decoder_.unread().starts_with(tls_handshake) || backlog() > 0) return;
    // These few bytes are the first output, so the socket accepts all of them unless the connection
    // has ended.
    std::ignore = ::send(socket_, answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void StoreConnection::go_on_soon() {
    boost::asio::post(server_->executor(), [self = shared_from_this()] {
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
    if (front.size() == backlog()) return ::send(socket_, front.data(), front.size(), flags);
    std::array<std::string_view, 64> parts;
    std::array<iovec, parts.size()> vectors;
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = out_.gather(parts);
    for (std::size_t i = 0; i < message.msg_iovlen; ++i)
        vectors[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
    return ::sendmsg(socket_, &message, flags);
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
    watch();
    count();
}

void StoreConnection::wait_until_writable() {
    const auto now = server_->watch_unread();
    if (!unread_since_) unread_since_ = now;
    is_waiting_to_write_ = true;
}

void StoreConnection::on_writable() {
    is_waiting_to_write_ = false;
    write();
    if (is_paused_ && !is_closed_ && backlog() <= limits::max_store_backlog_bytes)
        handle_requests();
}

void StoreConnection::watch() {
    if (is_closed_) return;
    const auto wanted =
        (is_paused_ ? 0U : std::uint32_t{EPOLLIN}) | (is_waiting_to_write_ ? EPOLLOUT : 0U);
    if (std::exchange(watched_events_, wanted) == wanted) return;
    server_->poller_.change(socket_, id_.value, wanted);
}

void StoreConnection::on_all_written() {
    // An idle connection keeps no buffer: it is passed to the next connection that is answered.
    std::string done;
    out_.swap_buffer(done);
    auto& spare = server_->spare_out_;
    if (done.capacity() > spare.capacity() && done.capacity() <= worth_keeping_out_bytes)
        spare = std::move(done);
    if (!is_finishing_) return;
    ::shutdown(socket_, SHUT_WR);
}

void StoreConnection::finish() {
    if (is_closed_ || is_finishing_) return;
    is_finishing_ = true;
    handshake_.reset();
    write();
    // A paused connection is not read, and only a read shows that the client has closed.
    is_paused_ = false;
    watch();
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
    net::Tcp::endpoint address;
    auto size = static_cast<socklen_t>(address.capacity());
    if (::getsockname(socket_, address.data(), &size) != 0) return "?";
    if (address.data()->sa_family == AF_UNIX) return "its tunnel";
    address.resize(size);
    return unwrap_mapped(address.address().to_string()) + ":" + std::to_string(address.port());
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
    if (server_ != nullptr) server_->poller_.remove(socket_);
    discard_unread(socket_);
    ::close(std::exchange(socket_, -1));
}

}  // namespace ddprun::server
