// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/tunnel_link.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/memory_reserve.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

namespace ddprun::agent {
namespace tunnel_link {
namespace {

/// A larger buffer is freed when it is empty, since there may be many links.
constexpr std::size_t worth_keeping_bytes = 16 * 1024;

/// The buffer for one read of one socket. Its bytes are used up before another socket is read, so
/// all links of a thread share it.
std::array<char, tunnel::max_payload_bytes>& turn() {
    thread_local std::array<char, tunnel::max_payload_bytes> bytes;
    return bytes;
}

/// If a socket is closed with unread bytes, its connection is reset, and the reset may overtake
/// bytes that were written before.
void discard_unread(int descriptor) {
    for (int rounds = 0; rounds < 16; ++rounds)
        if (::recv(descriptor, turn().data(), turn().size(), MSG_DONTWAIT) <= 0) break;
}

}  // namespace
}  // namespace tunnel_link

/// The socket of one stream.
struct TunnelLink::Local {
    explicit Local(Socket taken) : socket(std::move(taken)) {}

    Socket socket;
    /// Bytes that the socket does not accept at the moment.
    std::string pending;
    std::size_t written = 0;
    bool waits_to_read = false;
    bool waits_to_write = false;
    /// No more bytes come from the local program.
    bool has_read_end = false;
    /// The other end has ended the stream: the socket's output ends after `pending`.
    bool ends_after_pending = false;
    bool has_written_end = false;
    /// The local program accepts no more bytes: bytes that arrive are dropped.
    bool takes_nothing = false;
    /// The other end has reset the stream, or the tunnel has ended: bytes that are read are
    /// dropped, and the socket is closed after `pending`.
    bool closes_after_pending = false;
};

TunnelLink::Socket generic_socket(net::Tcp::socket socket, boost::asio::io_context& io) {
    error_code ec;
    TunnelLink::Socket generic(io);
    const auto protocol = socket.local_endpoint(ec).protocol();
    if (ec) return generic;
    const int descriptor = socket.release(ec);
    if (ec) return generic;
    generic.assign(boost::asio::generic::stream_protocol(protocol), descriptor, ec);
    if (ec) ::close(descriptor);
    return generic;
}

TunnelLink::TunnelLink(
    boost::asio::io_context& io,
    tunnel::Tunnel::Side side,
    Join join,
    OnOver on_over,
    tunnel::TunnelBounds bounds)
    : io_(io),
      join_(std::move(join)),
      on_over_(std::move(on_over)),
      tunnel_(side, std::move(bounds)) {}

// ---- the local sockets ----------------------------------------------------------------------

template <class Step>
void TunnelLink::attempt(Stream stream, Step step) {
    try {
        step();
        if (!keep_memory_reserve()) throw std::bad_alloc{};
    } catch (const std::bad_alloc&) {
        reset(stream);
        keep_memory_reserve();
    }
}

std::shared_ptr<TunnelLink::Local> TunnelLink::find(Stream stream) const {
    const auto place = locals_.find(stream);
    return place == locals_.end() ? nullptr : place->second;
}

void TunnelLink::carry(Socket socket, std::uint16_t port) {
    if (is_over_) return;
    const auto stream = tunnel_.open(port);
    if (!stream) return;
    attempt(*stream, [&] { add(*stream, std::move(socket)); });
    flush_soon();
}

void TunnelLink::add(Stream stream, Socket socket) {
    error_code ec;
    socket.native_non_blocking(true, ec);
    if (ec || !socket.is_open()) return reset(stream);
    locals_.emplace(stream, std::make_shared<Local>(std::move(socket)));
    wait_to_read(stream);
}

void TunnelLink::wait_to_read(Stream stream) {
    const auto local = find(stream);
    if (!local || local->waits_to_read || local->has_read_end) return;
    if (!local->closes_after_pending && tunnel_.may_send(stream) == 0)
        return stopped_.push_back(stream);
    local->waits_to_read = true;
    local->socket.async_wait(
        Socket::wait_read, [self = shared_from_this(), stream, local](const error_code& ec) {
            local->waits_to_read = false;
            if (!ec && self->find(stream) == local)
                self->attempt(stream, [&] { self->on_readable(stream); });
        });
}

void TunnelLink::on_readable(Stream stream) {
    const auto local = find(stream);
    auto& turn = tunnel_link::turn();
    const bool is_dropped = local->closes_after_pending;
    const auto most = is_dropped ? turn.size() : std::min(turn.size(), tunnel_.may_send(stream));
    // Another stream has filled the output since this wait began.
    if (most == 0) return stopped_.push_back(stream);
    const auto size = ::recv(local->socket.native_handle(), turn.data(), most, MSG_DONTWAIT);
    if (size < 0 && errno != EAGAIN && errno != EINTR) {
        local->has_read_end = true;
        return reset(stream);
    }
    if (size > 0 && !is_dropped)
        tunnel_.send(stream, {turn.data(), static_cast<std::size_t>(size)});
    if (size == 0) {
        local->has_read_end = true;
        if (local->takes_nothing) return reset(stream);
        tunnel_.end(stream);
        end_if_all_written(stream, *local);
    }
    flush_soon();
    wait_to_read(stream);
}

/// Resumes the streams that were stopped because the output was full. A stream without credit stops
/// again.
void TunnelLink::read_on() {
    for (const auto stream : std::exchange(stopped_, {}))
        attempt(stream, [&] { wait_to_read(stream); });
}

void TunnelLink::deliver(Stream stream, std::string_view data) {
    const auto local = find(stream);
    if (!local || local->closes_after_pending || local->takes_nothing)
        return tunnel_.took(stream, data.size());
    if (local->pending.empty()) {
        const auto sent = ::send(
            local->socket.native_handle(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            data.remove_prefix(static_cast<std::size_t>(sent));
            tunnel_.took(stream, static_cast<std::size_t>(sent));
        }
        if (data.empty()) return;
    }
    local->pending += data;
    write_pending(stream, *local);
}

void TunnelLink::write_pending(Stream stream, Local& local) {
    while (local.written < local.pending.size()) {
        const auto sent = ::send(
            local.socket.native_handle(),
            local.pending.data() + local.written,
            local.pending.size() - local.written,
            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) {
            // Frees the written half: the buffer of a stream that is never written completely stays
            // bounded.
            if (local.written >= local.pending.size() / 2) {
                local.pending.erase(0, local.written);
                local.written = 0;
            }
            return wait_to_write(stream, local);
        }
        if (sent < 0) return stop_writing(stream, local);
        local.written += static_cast<std::size_t>(sent);
        tunnel_.took(stream, static_cast<std::size_t>(sent));
    }
    // An assignment, unlike `clear`, frees the memory too.
    local.pending = {};
    local.written = 0;
    end_if_all_written(stream, local);
}

/// Bytes that the program wrote before it closed are still read, so that they reach the other end
/// before the reset.
void TunnelLink::stop_writing(Stream stream, Local& local) {
    if (local.has_read_end || local.closes_after_pending) return reset(stream);
    local.takes_nothing = true;
    tunnel_.took(stream, local.pending.size() - std::exchange(local.written, 0));
    local.pending = {};
}

void TunnelLink::wait_to_write(Stream stream, Local& local) {
    if (local.waits_to_write) return;
    local.waits_to_write = true;
    local.socket.async_wait(
        Socket::wait_write, [self = shared_from_this(), stream](const error_code& ec) {
            const auto place = self->find(stream);
            if (!place) return;
            place->waits_to_write = false;
            if (ec) return;
            self->attempt(stream, [&] { self->write_pending(stream, *place); });
            self->flush_soon();
        });
}

void TunnelLink::end_if_all_written(Stream stream, Local& local) {
    if (!local.pending.empty()) return;
    if (local.closes_after_pending) return drop(stream);
    if (local.ends_after_pending && !std::exchange(local.has_written_end, true))
        ::shutdown(local.socket.native_handle(), SHUT_WR);
    if (local.has_written_end && local.has_read_end) drop(stream);
}

void TunnelLink::drop(Stream stream) {
    const auto local = find(stream);
    if (!local) return;
    locals_.erase(stream);
    tunnel_link::discard_unread(local->socket.native_handle());
    error_code ignored;
    local->socket.close(ignored);
}

/// Drops the bytes that wait for the socket, and resets the stream.
void TunnelLink::reset(Stream stream) {
    drop(stream);
    try {
        tunnel_.reset(stream);
        flush_soon();
    } catch (const std::bad_alloc&) {
        // Otherwise the other end would wait for this stream for ever.
        end({system_code(ENOMEM), {}});
    }
}

// ---- the connection -----------------------------------------------------------------------------

/// A step that fails for lack of memory would never be repeated, so the tunnel ends.
template <class Step>
void TunnelLink::attempt(Step step) {
    try {
        step();
    } catch (const std::bad_alloc&) {
        end({system_code(ENOMEM), {}});
        keep_memory_reserve();
    }
}

void TunnelLink::start(net::Tcp::socket connection, tls::Session session, std::string plain) {
    if (is_over_) return;
    attempt([&] {
        peer_ = net::peer_name(connection);
        connection_.emplace(std::move(connection));
        session_.emplace(std::move(session));
        plain_ = std::move(plain);
    });
    read_connection();
    receive({});
}

void TunnelLink::read_connection() {
    if (is_over_) return;
    attempt([&] {
        connection_->async_wait(
            net::Tcp::socket::wait_read, [self = shared_from_this()](const error_code& ec) {
                if (self->is_over_) return;
                if (ec) return self->end({ec, {}});
                self->on_connection_readable();
            });
    });
}

void TunnelLink::on_connection_readable() {
    auto& turn = tunnel_link::turn();
    const auto size = ::recv(connection_->native_handle(), turn.data(), turn.size(), MSG_DONTWAIT);
    if (size == 0) return end({boost::asio::error::eof, {}});
    if (size < 0 && errno != EAGAIN && errno != EINTR) return end({system_code(errno), {}});
    if (size > 0) receive({turn.data(), static_cast<std::size_t>(size)});
    read_connection();
}

void TunnelLink::receive(std::string_view bytes) {
    if (is_over_) return;
    attempt([&] {
        if (const auto goes_on = session_->receive(bytes, plain_); !goes_on)
            return end(goes_on.error());
        std::vector<tunnel::Tunnel::Effect> effects;
        const auto taken = tunnel_.receive(plain_, effects);
        if (!taken) return end(taken.error());
        for (const auto& effect : effects)
            perform(effect);
        plain_.erase(0, *taken);
        if (plain_.empty() && plain_.capacity() > tunnel_link::worth_keeping_bytes) plain_ = {};
        flush_soon();
    });
}

void TunnelLink::perform(const tunnel::Tunnel::Effect& effect) {
    using tunnel::Tunnel;
    std::visit(
        Overloaded{
            [&](const Tunnel::Opened& it) {
                attempt(it.stream, [&] {
                    add(it.stream, join_(peer_ + "/" + std::to_string(it.caller_port)));
                });
            },
            [&](const Tunnel::Arrived& it) {
                attempt(it.stream, [&] { deliver(it.stream, it.data); });
            },
            [&](const Tunnel::Ended& it) {
                const auto local = find(it.stream);
                if (!local) return;
                local->ends_after_pending = true;
                end_if_all_written(it.stream, *local);
            },
            [&](const Tunnel::Broken& it) {
                const auto local = find(it.stream);
                if (!local) return;
                local->closes_after_pending = true;
                end_if_all_written(it.stream, *local);
                attempt(it.stream, [&] { wait_to_read(it.stream); });
            },
            [&](const Tunnel::MaySend& it) {
                attempt(it.stream, [&] { wait_to_read(it.stream); });
            },
        },
        effect);
}

/// Collects all output of this turn in one write.
void TunnelLink::flush_soon() {
    if (is_over_ || !session_ || will_flush_) return;
    attempt([&] {
        boost::asio::post(io_, [self = shared_from_this()] {
            self->will_flush_ = false;
            self->flush();
        });
        will_flush_ = true;
    });
}

void TunnelLink::flush() {
    if (is_over_ || !sending_.empty()) return;
    attempt([&] {
        if (tunnel_.has_output()) session_->send(tunnel_.take_output());
        sending_ = session_->take_output();
        if (sending_.empty()) return;
        boost::asio::async_write(
            *connection_,
            boost::asio::buffer(sending_),
            [self = shared_from_this()](const error_code& ec, std::size_t) {
                self->sending_.clear();
                if (ec) return self->end({ec, {}});
                self->flush();
            });
        read_on();
    });
}

void TunnelLink::close_connection() {
    if (!connection_) return;
    tunnel_link::discard_unread(connection_->native_handle());
    net::close(*connection_);
}

void TunnelLink::end(const Failure& why) {
    if (std::exchange(is_over_, true)) return;
    close_connection();
    for (auto place = locals_.begin(); place != locals_.end();) {
        const auto [stream, local] = *place++;
        local->closes_after_pending = true;
        end_if_all_written(stream, *local);
    }
    const auto on_over = std::exchange(on_over_, nullptr);
    try {
        if (on_over) on_over(why);
    } catch (const std::bad_alloc&) {
        // Only the log line is lost.
    }
}

void TunnelLink::stop() {
    is_over_ = true;
    on_over_ = nullptr;
    close_connection();
    while (!locals_.empty())
        drop(locals_.begin()->first);
}

}  // namespace ddprun::agent
