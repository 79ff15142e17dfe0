// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/transfer.hpp"

#include "worker_sdk/src/transports/wire/silence.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <utility>

namespace ddprun::groups {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// The most bytes of one system call, so that sending and receiving take turns.
constexpr std::size_t most_at_once = 256 * 1024;

constexpr const char* closed = "its connection was closed";
constexpr const char* broken = "its connection was broken";

std::size_t length_of(const std::array<iovec, 2>& pieces) {
    return pieces[0].iov_len + pieces[1].iov_len;
}

msghdr message_of(std::array<iovec, 2>& pieces) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return message;
}

}  // namespace

void Transfer::Polling::learn(bool has_come) {
    const int length = length_;
    length_ = std::clamp(
        has_come ? length * 2 : length / 2,
        static_cast<int>(waiting_times::shortest_wire_polling.count()),
        static_cast<int>(waiting_times::longest_wire_polling.count()));
}

Transfer::Transfer(Exchange& exchange, Settings settings)
    : exchange_(exchange),
      settings_(std::move(settings)),
      next_call_(Clock::now() + waiting_times::connection_check_interval) {
    const int ranks = static_cast<int>(settings_.sockets.size());
    for (const int socket : settings_.sockets)
        sockets_.push_back({socket, 0, 0});
    sockets_[static_cast<std::size_t>(settings_.rank)] = {settings_.wake, POLLIN, 0};
    for (int step = 1; step < ranks; ++step) {
        Peer peer{(settings_.rank + step) % ranks};
        peer.sending.header =
            header_of(settings_.call, settings_.tag, exchange_.bytes_to(peer.number));
        if (!is_done(peer)) peers_.push_back(peer);
    }
}

Transfer::End Transfer::run() {
    while (!end_) {
        if (settings_.is_aborted) return Aborted{};
        bool has_moved = false;
        for (auto& peer : peers_) {
            const bool can_send = !peer.is_broken && !peer.sending.is_full;
            if (can_send && wants_to_send(peer)) has_moved |= send(peer);
            if (!peer.receiving.is_empty && wants_to_receive(peer)) has_moved |= receive(peer);
            if (end_) return *end_;
        }
        std::erase_if(peers_, [this](const Peer& peer) { return is_done(peer); });
        if (peers_.empty()) break;
        check_time();
        if (end_ || has_moved) continue;
        if (exchange_.copy_some())
            look();
        else
            await();
    }
    if (end_) return *end_;
    // The peers have all they need, so the rest of this call delays none of them.
    while (exchange_.copy_some())
        if (settings_.is_aborted) return Aborted{};
    return Done{};
}

bool Transfer::wants_to_send(const Peer& peer) const {
    if (!exchange_.sends_to(peer.number)) return false;
    return peer.sending.header_sent < sizeof(Header) || exchange_.next_output(peer.number).size > 0;
}

bool Transfer::wants_to_receive(const Peer& peer) const {
    if (!exchange_.receives_from(peer.number)) return false;
    return peer.receiving.header_got < sizeof(Header) || exchange_.next_input(peer.number).size > 0;
}

bool Transfer::has_sent(const Peer& peer) const {
    if (!exchange_.sends_to(peer.number)) return true;
    return peer.sending.header_sent == sizeof(Header) && exchange_.has_sent_all(peer.number);
}

bool Transfer::is_done(const Peer& peer) const {
    const bool has_received =
        peer.receiving.header_got == sizeof(Header) && exchange_.has_received_all(peer.number);
    return has_sent(peer) && (has_received || !exchange_.receives_from(peer.number));
}

/// Returns true when something was sent.
bool Transfer::send(Peer& peer) {
    auto& sending = peer.sending;
    const auto output = exchange_.next_output(peer.number);
    auto* const header = reinterpret_cast<std::byte*>(&sending.header);
    std::array<iovec, 2> pieces{
        iovec{header + sending.header_sent, sizeof(Header) - sending.header_sent},
        iovec{const_cast<std::byte*>(output.data), std::min(output.size, most_at_once)}};
    const auto message = message_of(pieces);
    const auto sent = ::sendmsg(socket_of(peer), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        if (errno == EINTR) return true;
        if (errno != EAGAIN && errno != ENOBUFS) lose(peer.number, ::strerror(errno));
        sending.is_full = true;
        return false;
    }
    const auto bytes = static_cast<std::size_t>(sent);
    sending.is_full = bytes < length_of(pieces);
    const auto of_header = std::min(bytes, pieces[0].iov_len);
    sending.header_sent += of_header;
    if (bytes > of_header) exchange_.sent(peer.number, bytes - of_header);
    return true;
}

/// Returns true when something has arrived.
bool Transfer::receive(Peer& peer) {
    auto& receiving = peer.receiving;
    const auto room = exchange_.next_input(peer.number);
    std::array<iovec, 2> pieces{
        iovec{
            receiving.header.data() + receiving.header_got, sizeof(Header) - receiving.header_got},
        iovec{room.data, std::min(room.size, most_at_once)}};
    auto message = message_of(pieces);
    const auto got = ::recvmsg(socket_of(peer), &message, MSG_DONTWAIT);
    if (got < 0) {
        if (errno == EINTR) return true;
        if (errno != EAGAIN) lose(peer.number, ::strerror(errno));
        receiving.is_empty = true;
        return false;
    }
    if (got == 0) {
        lose(peer.number, closed);
        return false;
    }
    const auto bytes = static_cast<std::size_t>(got);
    // A broken connection is not polled, so it is read again until its end.
    receiving.is_empty = !peer.is_broken && bytes < length_of(pieces);
    const auto of_header = std::min(bytes, pieces[0].iov_len);
    receiving.header_got += of_header;
    if (of_header > 0 && receiving.header_got == sizeof(Header)) check_header(peer);
    if (bytes > of_header && !end_) exchange_.received(peer.number, bytes - of_header);
    return true;
}

/// Calls follow each other in a connection, so bytes of another call are always a mismatch.
void Transfer::check_header(const Peer& peer) {
    Header header;
    ::memcpy(&header, peer.receiving.header.data(), sizeof header);
    const auto call = call_in(header);
    const bool is_same = call && is_same_call(*call, settings_.call);
    if (is_same && header.tag == settings_.tag && header.bytes == exchange_.bytes_from(peer.number))
        return;
    if (call && !is_same)
        end_ = Differs{peer.number, *call};
    else
        lose(peer.number, "it has sent bytes of no call");
}

/// Called even while bytes keep arriving.
void Transfer::check_time() {
    const auto now = Clock::now();
    if (now >= settings_.until) {
        Late late;
        for (const auto& peer : peers_)
            late.peers.push_back(peer.number);
        end_ = std::move(late);
    } else if (now >= next_call_) {
        if (settings_.during_wait) settings_.during_wait();
        lose_silent();
        next_call_ = Clock::now() + waiting_times::connection_check_interval;
    }
}

void Transfer::lose_silent() {
    for (const auto& peer : peers_)
        if (is_silent(socket_of(peer))) return lose(peer.number, "its machine does not answer");
}

void Transfer::look() {
    set_awaited();
    if (poll(0)) note();
}

/// Waits until something can be moved, an abort, the deadline or the next call of `during_wait`.
void Transfer::await() {
    require_no_broken();
    if (end_) return;
    set_awaited();
    if (poll_for_a_while()) return note();
    if (end_) return;
    const auto left =
        std::chrono::ceil<milliseconds>(std::min(next_call_, settings_.until) - Clock::now());
    if (poll(static_cast<int>(std::max(left, milliseconds(0)).count()))) note();
}

/// Nothing can be moved, so data for a broken peer can never be sent.
void Transfer::require_no_broken() {
    for (const auto& peer : peers_)
        if (peer.is_broken && !has_sent(peer)) return lose(peer.number, broken);
}

/// Returns true when a socket is ready.
bool Transfer::poll_for_a_while() {
    const auto length = settings_.polling.length();
    if (length.count() == 0) return false;
    const auto until = Clock::now() + length;
    do {
        if (poll(0)) {
            settings_.polling.learn(true);
            return true;
        }
        // Another rank may be waiting for this processor.
        ::sched_yield();
    } while (!end_ && Clock::now() < until);
    settings_.polling.learn(false);
    return false;
}

/// Returns true when a socket is ready.
bool Transfer::poll(int milliseconds) {
    const int ready = ::poll(sockets_.data(), sockets_.size(), milliseconds);
    if (ready < 0 && errno != EINTR) end_ = Failed{std::string("poll: ") + ::strerror(errno)};
    return ready > 0;
}

/// A connection without bytes to move is polled too: one that breaks without having been closed
/// belongs to a rank that has aborted.
void Transfer::set_awaited() {
    for (auto& socket : sockets_)
        if (socket.fd != settings_.wake) socket.events = 0;
    for (const auto& peer : peers_) {
        int events = 0;
        if (wants_to_receive(peer)) events |= POLLIN;
        if (wants_to_send(peer)) events |= POLLOUT;
        auto& socket = sockets_[static_cast<std::size_t>(peer.number)];
        socket.events = static_cast<short>(events);
        // A broken socket would always be ready.
        if (peer.is_broken) socket.fd = -1;
    }
}

void Transfer::note() {
    constexpr int over = POLLERR | POLLHUP | POLLNVAL;
    for (auto& peer : peers_) {
        auto& socket = sockets_[static_cast<std::size_t>(peer.number)];
        const int ready = std::exchange(socket.revents, short{0});
        if ((ready & over) != 0) peer.is_broken = true;
        if ((ready & (POLLIN | over)) != 0) peer.receiving.is_empty = false;
        if ((ready & POLLOUT) != 0) peer.sending.is_full = false;
    }
    // Also checks the peers that are done.
    for (std::size_t rank = 0; rank < sockets_.size(); ++rank)
        if (sockets_[rank].fd != settings_.wake && (sockets_[rank].revents & over) != 0)
            return lose(static_cast<int>(rank), broken);
}

}  // namespace ddprun::groups
