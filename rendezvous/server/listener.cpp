// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listener.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/net/socket_owner.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

namespace ddprun::server {
namespace {

/// After this many the other connections of this thread have their turn.
constexpr int accepts_per_turn = 64;
constexpr std::chrono::milliseconds pause_after_failure{100};

int open_spare() {
    return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/// Returns -1 with errno set. When no descriptor is free, errno is EMFILE, even if no client waits.
int accept_next(net::Tcp::acceptor& acceptor) {
    return ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

bool is_on_loopback(const net::Tcp::acceptor& acceptor) {
    error_code ec;
    const auto endpoint = acceptor.local_endpoint(ec);
    return !ec && endpoint.address().is_loopback();
}

net::Tcp protocol_of(const net::Tcp::acceptor& acceptor) {
    error_code ec;
    const auto endpoint = acceptor.local_endpoint(ec);
    return ec ? net::Tcp::v4() : endpoint.protocol();
}

}  // namespace

Listener::Listener(net::Tcp::acceptor acceptor, Take take, Callers callers)
    : acceptor_(std::move(acceptor)),
      protocol_(protocol_of(acceptor_)),
      take_(std::move(take)),
      callers_(callers),
      asks_for_user_(callers != Callers::any && is_on_loopback(acceptor_)),
      pause_(acceptor_.get_executor()),
      spare_(open_spare()),
      dropped_before_(net::dropped_callers(acceptor_)) {
    require(callers != Callers::own_user || asks_for_user_, "strict callers are on loopback");
    error_code ignored;
    acceptor_.native_non_blocking(true, ignored);
}

Listener::~Listener() {
    if (spare_ >= 0) ::close(spare_);
}

void Listener::close() {
    is_closed_ = true;
    pause_.cancel();
    error_code ignored;
    acceptor_.close(ignored);
}

void Listener::take_waiting() {
    for (int i = 0; i < limits::max_accept_backlog && accept_one() == Accepted::one; ++i) {
    }
}

void Listener::wait() {
    acceptor_.async_wait(
        net::Tcp::acceptor::wait_read, [self = shared_from_this()](const error_code& ec) {
            if (ec || self->is_closed_) return;
            self->on_ready();
        });
}

void Listener::on_ready() {
    for (int i = 0; i < accepts_per_turn; ++i) {
        const auto accepted = accept_one();
        if (is_closed_) return;
        if (accepted == Accepted::later) return pause();
        if (accepted == Accepted::none_waiting) break;
    }
    notice_dropped_callers();
    wait();
}

/// The kernel only counts dropped callers and wakes no process, so the counter is read in each turn
/// until the first drop.
void Listener::notice_dropped_callers() {
    if (has_reported_drops_) return;
    const auto dropped = net::dropped_callers(acceptor_) - dropped_before_;
    if (dropped == 0) return;
    has_reported_drops_ = true;
    log::warning(
        "listener.overflowed",
        {{"dropped", dropped},
         {"backlog", net::granted_backlog(acceptor_).value_or(0)},
         {"effect",
          "so many callers came at once that some must try again, after a second or more; "
          "net.core.somaxconn bounds how many may wait"}});
}

void Listener::serve(int descriptor) {
    error_code ec;
    net::Tcp::socket socket(acceptor_.get_executor());
    socket.assign(protocol_, descriptor, ec);
    if (ec) {
        ::close(descriptor);
        return;
    }
    try {
        if (asks_for_user_ && !admits(socket)) return;
        take_(std::move(socket));
    } catch (const std::bad_alloc&) {
        // The caller's connection is closed; the listener continues with the next caller.
    }
}

bool Listener::admits(const net::Tcp::socket& socket) {
    using Kind = net::PeerOwner::Kind;
    const auto owner = net::peer_owner(socket);
    switch (owner.kind) {
        case Kind::this_user: return true;
        case Kind::gone:
            if (!std::exchange(has_closed_unasked_, true))
                log::debug("listener.caller_gone", {{"peer", net::peer_name(socket)}});
            return false;
        case Kind::unknown:
            if (!std::exchange(has_missed_user_, true))
                log::warning(
                    "listener.user_unknown",
                    {{"peer", net::peer_name(socket)},
                     {"effect",
                      is_strict() ? "with a secret such a caller of the workers' store is closed: "
                                    "--store-access=direct serves it"
                                  : "every user of this machine can reach this port"}});
            return !is_strict();
        case Kind::other_user:
            if (!std::exchange(has_refused_user_, true))
                log::warning(
                    "listener.user_refused",
                    {{"peer", net::peer_name(socket)},
                     {"uid", owner.uid},
                     {"effect",
                      "a loopback address is for the user of the job only: for workers or scrapers "
                      "of another user give another --rdzv-endpoint"}});
            return false;
    }
    return false;
}

Listener::Accepted Listener::accept_one() {
    const int descriptor = accept_next(acceptor_);
    if (descriptor >= 0) {
        serve(descriptor);
        return Accepted::one;
    }
    if (errno == EAGAIN) return Accepted::none_waiting;
    // The caller has already closed its end, or a signal arrived.
    if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) return Accepted::one;
    const int error = errno;
    if (!std::exchange(has_complained_, true))
        log::error("listener.accept_failed", {{"error", system_code(error).message()}});
    if ((error != EMFILE && error != ENFILE) || spare_ < 0) return Accepted::later;
    return accept_with_spare();
}

Listener::Accepted Listener::accept_with_spare() {
    ::close(spare_);
    const int descriptor = accept_next(acceptor_);
    spare_ = open_spare();
    if (descriptor < 0) return Accepted::none_waiting;
    // A descriptor became free meanwhile, so this client can be served after all.
    if (spare_ >= 0) {
        serve(descriptor);
        return Accepted::one;
    }
    ::close(descriptor);
    spare_ = open_spare();
    return Accepted::one;
}

void Listener::pause() {
    pause_.expires_after(pause_after_failure);
    pause_.async_wait([self = shared_from_this()](const error_code& ec) {
        if (ec || self->is_closed_) return;
        if (self->spare_ < 0) self->spare_ = open_spare();
        self->wait();
    });
}

}  // namespace ddprun::server
