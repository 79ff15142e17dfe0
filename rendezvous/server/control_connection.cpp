// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/control_connection.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/memory_reserve.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/server/sniff.hpp"
#include "rendezvous/voters/vote_text.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace ddprun::server {
namespace control_connection {
namespace {

/// Frames passed to the kernel in one call.
constexpr std::size_t most_frames_at_once = 16;
/// The overhead of a frame.
constexpr std::size_t frame_bytes = 128;

ControlConnection::Frame frame_of(const control::ServerMessage& message) {
    return std::make_shared<const std::string>(control::encode(message));
}

std::string other_version(int version) {
    return "this server reads the preamble of version " + std::to_string(control::first_version) +
           " of the control protocol and the agent version " + std::to_string(version) +
           ": run the same ddprun on all nodes";
}

constexpr std::string_view needs_secret =
    "this job needs --rdzv-secret-file or --secure, on every node the same secret";

}  // namespace
}  // namespace control_connection

ControlConnection::ControlConnection(net::Tcp::socket socket, ControlAccess access)
    : socket_(std::move(socket)),
      peer_(net::peer_name(socket_)),
      access_(std::move(access)) {}

void ControlConnection::start(std::string first_bytes, Duration handshake_timeout, Hooks hooks) {
    hooks_ = std::move(hooks);
    handshake_timeout_ = handshake_timeout;
    begin_handshake(
        access_.session || access_.is_refused
            ? std::min(handshake_timeout, limits::tls_handshake_timeout)
            : handshake_timeout);
    boost::asio::co_spawn(
        socket_.get_executor(),
        [self = shared_from_this(), bytes = std::move(first_bytes)]() mutable {
            return self->serve(std::move(bytes));
        },
        boost::asio::detached);
}

void ControlConnection::begin_handshake(Duration timeout) {
    handshake_.emplace(socket_.get_executor(), timeout, [this] {
        abort("no join within the handshake deadline");
    });
}

boost::asio::awaitable<void> ControlConnection::serve(std::string first_bytes) {
    const auto self = shared_from_this();
    try {
        receive(first_bytes);
        count();
        std::array<char, 4096> chunk{};
        for (;;) {
            const auto [ec, size] =
                co_await socket_.async_read_some(boost::asio::buffer(chunk), net::as_values);
            if (ec) {
                ended_by_peer(ec);
                co_return;
            }
            receive({chunk.data(), size});
            count();
            if (!keep_memory_reserve()) throw std::bad_alloc{};
        }
    } catch (const std::bad_alloc&) {
        if (hooks_.on_no_memory) hooks_.on_no_memory();
    }
}

void ControlConnection::receive(std::string_view bytes) {
    auto& session = access_.session;
    if (!session) return understand(bytes);
    if (is_finishing_ || is_concluded_) return;
    const bool was_established = session->is_established();
    std::string plain;
    const auto received = session->receive(bytes, plain);
    // Called even after a failure: an end that has not proved the secret gets an alert.
    write();
    if (!received) {
        const auto reason = received.error().describe();
        return was_established ? abort(reason) : finish(reason);
    }
    if (!was_established && session->is_established()) {
        begin_handshake(handshake_timeout_);
        if (hooks_.on_established) hooks_.on_established();
    }
    if (!plain.empty()) understand(plain);
}

void ControlConnection::understand(std::string_view bytes) {
    if (is_finishing_) return;
    if (begun_ == Begun::greeting)
        decoder_.append(bytes);
    else
        begin(bytes);
    while (begun_ == Begun::greeting && !is_finishing_ && !is_concluded_) {
        auto message = decoder_.next();
        if (!message) {
            const auto reason = message.error().describe();
            send(control_connection::frame_of(control::ProtocolError{reason}));
            finish(reason);
            return;
        }
        if (!*message) return;
        handshake_.reset();
        hooks_.on_message(std::move(**message));
    }
}

void ControlConnection::begin(std::string_view bytes) {
    greeting_ += bytes;
    const auto begin = std::string_view{greeting_}.substr(0, voters::vote_protocol.size());
    if (begin == voters::vote_protocol) return hear_vote();
    // The first byte is another one than that of the preamble.
    if (!voters::vote_protocol.starts_with(begin)) greet();
}

void ControlConnection::hear_vote() {
    const auto line = std::string_view{greeting_}.substr(voters::vote_protocol.size());
    const auto end = line.find('\n');
    if (std::min(end, line.size()) > limits::max_vote_line_bytes)
        return abort("a request for a vote is too long");
    if (end == std::string_view::npos) return;
    if (access_.is_refused) {
        const std::string reason{control_connection::needs_secret};
        send(std::make_shared<const std::string>(reason + '\n'));
        return finish(reason);
    }
    auto answer = hooks_.on_vote(line.substr(0, end));
    if (answer.empty()) return abort("a request for a vote is not valid");
    begun_ = Begun::vote;
    greeting_.clear();
    send(std::make_shared<const std::string>(std::move(answer)));
    finish("a vote was answered");
}

void ControlConnection::greet() {
    const auto preamble = read_preamble(greeting_);
    if (!preamble) return abort(preamble.error().describe());
    if (!*preamble) return;
    if (access_.is_refused) {
        const std::string reason{control_connection::needs_secret};
        send(control_connection::frame_of(control::Refused{reason, {}, true}));
        return finish(reason);
    }
    if ((*preamble)->version != control::first_version) {
        const auto reason = control_connection::other_version((*preamble)->version);
        send(control_connection::frame_of(control::Refused{reason, {}}));
        return finish(reason);
    }
    begun_ = Begun::greeting;
    decoder_.append(std::string_view{greeting_}.substr((*preamble)->length));
    greeting_.clear();
    send(control_connection::frame_of(control::Hello{control::own_versions()}));
    hooks_.on_greeted();
}

void ControlConnection::send(Frame frame) {
    if (is_finishing_ || is_concluded_) return;
    const auto bytes = control_connection::frame_bytes + frame->size();
    queue_.push_back(std::move(frame));
    queued_bytes_ += bytes;
    if (queued_bytes_ > limits::max_control_backlog_bytes)
        return abort_over_bound("it does not read what is sent to it");
    write();
    count();
}

void ControlConnection::finish(std::string reason) {
    if (is_finishing_ || is_concluded_) return;
    is_finishing_ = true;
    remember(std::move(reason));
    handshake_.reset();
    flush_.emplace(socket_.get_executor(), limits::flush_timeout, [this] { conclude(); });
    if (!is_writing_) wrote({}, 0);
}

void ControlConnection::abort(std::string reason) {
    remember(std::move(reason));
    conclude();
}

void ControlConnection::abort_over_bound(std::string reason) {
    was_over_bound_ = true;
    abort(std::move(reason));
}

void ControlConnection::ended_by_peer(const error_code& ec) {
    remember(ec == boost::asio::error::eof ? "closed by the agent" : ec.message());
    if (!is_writing_ || !is_finishing_) conclude();
}

/// The next frames of the queue and the handshake's output as buffers; empty when there is nothing
/// to write.
std::vector<boost::asio::const_buffer> ControlConnection::next_buffers(std::size_t frame_count) {
    auto& session = access_.session;
    std::vector<boost::asio::const_buffer> buffers;
    for (std::size_t i = 0; i < frame_count; ++i) {
        if (session)
            session->send(*queue_[i]);
        else
            buffers.push_back(boost::asio::buffer(*queue_[i]));
    }
    if (!session || !session->has_output()) return buffers;
    encrypted_ = session->take_output();
    return {boost::asio::buffer(encrypted_)};
}

void ControlConnection::write() {
    if (is_writing_ || is_concluded_) return;
    const auto count = std::min(queue_.size(), control_connection::most_frames_at_once);
    auto buffers = next_buffers(count);
    if (buffers.empty()) return;
    is_writing_ = true;
    boost::asio::async_write(
        socket_,
        std::move(buffers),
        [self = shared_from_this(), count](const error_code& ec, std::size_t) {
            self->is_writing_ = false;
            self->wrote(ec, count);
        });
}

void ControlConnection::wrote(const error_code& ec, std::size_t frame_count) {
    if (is_concluded_) return;
    if (ec) return abort(ec.message());
    for (; frame_count > 0; --frame_count) {
        queued_bytes_ -= control_connection::frame_bytes + queue_.front()->size();
        queue_.pop_front();
    }
    encrypted_.clear();
    count();
    if (!queue_.empty() || (access_.session && access_.session->has_output())) return write();
    if (!is_finishing_) return;
    // The agent reads until the end of the stream, then closes. Closing here could send a reset
    // that overtakes the last frame. `serve` notices the agent's end, or `flush_` expires.
    error_code is_gone;
    socket_.shutdown(net::Tcp::socket::shutdown_send, is_gone);
    if (is_gone) conclude();
}

void ControlConnection::conclude() {
    if (is_concluded_) return;
    is_concluded_ = true;
    handshake_.reset();
    flush_.reset();
    net::close(socket_);
    count();
    // Posted, because this may run inside one of the owner's calls.
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
        const auto hooks = std::exchange(self->hooks_, {});
        if (hooks.on_ended) hooks.on_ended(self->reason_);
    });
}

void ControlConnection::count() {
    const auto& session = access_.session;
    const auto now = is_concluded_
                         ? 0
                         : queued_bytes_ + encrypted_.size() + greeting_.size() +
                               decoder_.held_bytes() + (session ? session->held_bytes() : 0);
    const auto before = std::exchange(held_bytes_, now);
    if (before != now && hooks_.on_held) hooks_.on_held(before, now);
}

void ControlConnection::remember(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
}

}  // namespace ddprun::server
