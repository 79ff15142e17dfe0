// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store_poller.hpp"

#include "rendezvous/base/result.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace ddprun::server {
namespace {

/// After this many events other handlers of the io_context have their turn.
constexpr std::size_t most_events = 128;
/// After this many guesses in a row the other sockets are polled too.
constexpr int most_guesses = 8;

epoll_event event_of(std::uint64_t number, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    return event;
}

}  // namespace

StorePoller::StorePoller(boost::asio::io_context& io, Ready ready)
    : ready_(std::move(ready)),
      epoll_(io) {}

bool StorePoller::open() {
    const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
    if (descriptor < 0) return false;
    error_code ec;
    epoll_.assign(descriptor, ec);
    if (ec) {
        ::close(descriptor);
        return false;
    }
    wait();
    return true;
}

bool StorePoller::add(int socket, std::uint64_t number) {
    if (!epoll_.is_open() && !open()) return false;
    auto event = event_of(number, EPOLLIN);
    return ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, socket, &event) == 0;
}

void StorePoller::change(int socket, std::uint64_t number, std::uint32_t events) {
    auto event = event_of(number, events);
    ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_MOD, socket, &event);
}

void StorePoller::remove(int socket) {
    // Removed explicitly: closing is not enough while a forked process that has not called exec
    // shares the socket.
    if (epoll_.is_open()) ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, socket, nullptr);
}

void StorePoller::wait() {
    epoll_.async_wait(
        boost::asio::posix::stream_descriptor::wait_read,
        [this, alive = std::weak_ptr{alive_}](const error_code& ec) {
            if (!ec && !alive.expired()) on_ready();
        });
}

void StorePoller::on_ready() {
    struct WaitAgain {
        void operator()(StorePoller* poller) const { poller->wait(); }
    };
    // Waits again only at the end, since most sockets have been read empty by then, and even after
    // an exception.
    const std::unique_ptr<StorePoller, WaitAgain> at_end(this);
    handle_ready();
}

void StorePoller::handle_ready() {
    if (guess_ && guess_count_++ < most_guesses && ready_(*guess_, EPOLLIN)) return;
    guess_.reset();
    guess_count_ = 0;
    std::array<epoll_event, most_events> events;
    const auto count =
        ::epoll_wait(epoll_.native_handle(), events.data(), static_cast<int>(events.size()), 0);
    bool is_dialogue = false;
    for (int i = 0; i < count; ++i) {
        const auto& event = events[static_cast<std::size_t>(i)];
        is_dialogue = ready_(event.data.u64, event.events);
    }
    if (count == 1 && is_dialogue) guess_ = std::uint64_t{events[0].data.u64};
}

}  // namespace ddprun::server
