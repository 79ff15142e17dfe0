// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/accept_loop.hpp"

#include "rendezvous/base/log.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace ddprun::server {
namespace accept_loop {
namespace {

using namespace std::chrono_literals;

constexpr auto pause_after_failure = 100ms;

int open_reserve() {
    return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

}  // namespace
}  // namespace accept_loop

AcceptLoop::AcceptLoop(net::Tcp::acceptor acceptor, Accepted accepted)
    : acceptor_(std::move(acceptor)),
      accepted_(std::move(accepted)),
      pause_(acceptor_.get_executor()),
      reserve_(accept_loop::open_reserve()) {}

AcceptLoop::~AcceptLoop() {
    if (reserve_ >= 0) ::close(reserve_);
}

void AcceptLoop::start() {
    error_code ignored;
    acceptor_.non_blocking(true, ignored);
    boost::asio::co_spawn(
        acceptor_.get_executor(),
        [self = shared_from_this()]() { return self->run(); },
        boost::asio::detached);
}

void AcceptLoop::close() {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
}

boost::asio::awaitable<void> AcceptLoop::run() {
    const auto self = shared_from_this();  // outlives whoever dropped it meanwhile
    while (acceptor_.is_open()) {
        const auto [ec] = co_await acceptor_.async_wait(net::Tcp::acceptor::wait_read, net::as_values);
        if (ec) continue;  // closed, or spurious
        if (accept_all()) continue;
        pause_.expires_after(accept_loop::pause_after_failure);
        std::ignore = co_await pause_.async_wait(net::as_values);
    }
}

bool AcceptLoop::accept_all() {
    while (acceptor_.is_open()) {
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        const int descriptor = ::accept4(
            acceptor_.native_handle(),
            reinterpret_cast<sockaddr*>(&peer),
            &size,
            SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor >= 0) {
            is_out_of_descriptors_ = false;
            const auto protocol =
                peer.ss_family == AF_INET6 ? net::Tcp::v6() : net::Tcp::v4();
            net::Tcp::socket socket(acceptor_.get_executor(), protocol, descriptor);
            net::prepare(socket);
            accepted_(std::move(socket));
            continue;
        }
        switch (errno) {
            case EAGAIN: return true;
            case EINTR:
            case ECONNABORTED: continue;
            case EMFILE:
            case ENFILE:
                if (!turn_away()) return false;
                continue;
            default:  // ENOBUFS, ENOMEM, and what a firewall may invent: never the end of the loop
                log::warning("rendezvous.accept_failed", {{"error", system_code(errno).message()}});
                return false;
        }
    }
    return true;
}

bool AcceptLoop::turn_away() {
    if (!is_out_of_descriptors_) {
        is_out_of_descriptors_ = true;
        log::warning(
            "rendezvous.accept_failed",
            {{"error", system_code(errno).message()}, {"then", "callers are turned away"}});
    }
    if (reserve_ < 0) reserve_ = accept_loop::open_reserve();
    if (reserve_ < 0) return false;
    ::close(reserve_);
    const int caller = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (caller >= 0) ::close(caller);
    reserve_ = accept_loop::open_reserve();
    return caller >= 0;
}

}  // namespace ddprun::server
