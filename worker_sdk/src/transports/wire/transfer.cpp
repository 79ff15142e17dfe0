// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/transfer.hpp"

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

/// In one call of the kernel: sending and receiving take turns.
constexpr std::size_t most_at_once = 256 * 1024;

constexpr const char* closed = "its connection was closed";

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
            if (!peer.sending.is_full && wants_to_send(peer)) has_moved |= send(peer);
            if (!peer.receiving.is_empty && wants_to_receive(peer)) has_moved |= receive(peer);
            if (end_) return *end_;
        }
        std::erase_if(peers_, [this](const Peer& peer) { return is_done(peer); });
        if (peers_.empty()) break;
        if (has_moved) continue;
        if (exchange_.copy_some())
            look();
        else
            await();
    }
    if (end_) return *end_;
    while (exchange_.copy_some())
        continue;
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

bool Transfer::is_done(const Peer& peer) const {
    const bool has_sent =
        peer.sending.header_sent == sizeof(Header) && exchange_.has_sent_all(peer.number);
    const bool has_received =
        peer.receiving.header_got == sizeof(Header) && exchange_.has_received_all(peer.number);
    return (has_sent || !exchange_.sends_to(peer.number)) &&
           (has_received || !exchange_.receives_from(peer.number));
}

/// True when something was sent.
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

/// True when something has come.
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
    receiving.is_empty = bytes < length_of(pieces);
    const auto of_header = std::min(bytes, pieces[0].iov_len);
    receiving.header_got += of_header;
    if (of_header > 0 && receiving.header_got == sizeof(Header)) check_header(peer);
    if (bytes > of_header && !end_) exchange_.received(peer.number, bytes - of_header);
    return true;
}

/// Calls follow each other in a connection, so that bytes of another call are a mismatch for
/// certain.
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

void Transfer::look() {
    auto sockets = awaited();
    if (::poll(sockets.data(), sockets.size(), 0) > 0) note(sockets);
}

/// For the first of: something can be moved, an abort, the end of the time.
void Transfer::await() {
    auto sockets = awaited();
    if (poll_for_a_while(sockets)) return note(sockets);
    const auto now = Clock::now();
    if (now >= settings_.until) {
        Late late;
        for (const auto& peer : peers_)
            late.peers.push_back(peer.number);
        end_ = std::move(late);
        return;
    }
    if (now >= next_call_) {
        if (settings_.during_wait) settings_.during_wait();
        next_call_ = Clock::now() + waiting_times::connection_check_interval;
        return;
    }
    const auto left = std::chrono::ceil<milliseconds>(std::min(next_call_, settings_.until) - now);
    if (::poll(sockets.data(), sockets.size(), static_cast<int>(left.count())) > 0) note(sockets);
}

/// True when a socket is ready.
bool Transfer::poll_for_a_while(std::vector<pollfd>& sockets) {
    const auto length = settings_.polling.length();
    if (length.count() == 0) return false;
    const auto until = Clock::now() + length;
    do {
        if (::poll(sockets.data(), sockets.size(), 0) > 0) {
            settings_.polling.learn(true);
            return true;
        }
        // A rank may be waiting for this processor.
        ::sched_yield();
    } while (Clock::now() < until);
    settings_.polling.learn(false);
    return false;
}

/// In the order of `peers_`, then the one that wakes, then those of all ranks: a connection that
/// was broken, and not closed, is one of a rank that has aborted.
std::vector<pollfd> Transfer::awaited() const {
    std::vector<pollfd> sockets;
    for (const auto& peer : peers_) {
        int events = 0;
        if (wants_to_receive(peer)) events |= POLLIN;
        if (wants_to_send(peer)) events |= POLLOUT;
        // Without anything to move it would be ready again and again, once it is closed.
        sockets.push_back({events != 0 ? socket_of(peer) : -1, static_cast<short>(events), 0});
    }
    sockets.push_back({settings_.wake, POLLIN, 0});
    for (const int socket : settings_.sockets)
        sockets.push_back({socket, 0, 0});
    return sockets;
}

void Transfer::note(const std::vector<pollfd>& sockets) {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        const int ready = sockets[i].revents;
        constexpr int over = POLLERR | POLLHUP | POLLNVAL;
        if ((ready & (POLLIN | over)) != 0) peers_[i].receiving.is_empty = false;
        if ((ready & (POLLOUT | over)) != 0) peers_[i].sending.is_full = false;
    }
    const auto* const all = sockets.data() + peers_.size() + 1;
    for (std::size_t rank = 0; rank < settings_.sockets.size(); ++rank) {
        const bool is_awaited = std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
            return static_cast<std::size_t>(peer.number) == rank;
        });
        // Of the others, bytes may have come before.
        if (!is_awaited && (all[rank].revents & (POLLERR | POLLHUP)) != 0)
            return lose(static_cast<int>(rank), "its connection was broken");
    }
}

}  // namespace ddprun::groups
