// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/local_listener.hpp"

#include "rendezvous/base/ids.hpp"
#include "rendezvous/net/abstract_address.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/local_users.hpp"

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace ddprun::agent::channel {
namespace {

constexpr int backlog = 128;
/// After this many callers other events have their turn.
constexpr int callers_at_once = 64;
constexpr auto pause_without_descriptors = std::chrono::milliseconds{100};

bool bind_abstract(int socket, const std::string& name) {
    const net::AbstractAddress address(name);
    return ::bind(socket, address.get(), address.size) == 0;
}

LocalPeer peer_of(int socket) {
    ucred about{};
    socklen_t size = sizeof about;
    const bool is_known = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &about, &size) == 0;
    // No user has the number -1, so a caller with it is refused.
    if (!is_known || !net::means_one_user(about.uid).value_or(false)) about.uid = ~uid_t{};
    return {about.pid, about.uid};
}

}  // namespace

LocalListener::LocalListener(boost::asio::io_context& io, OnCaller on_caller)
    : on_caller_(std::move(on_caller)),
      listener_(io),
      accept_again_(io) {}

Result<> LocalListener::listen(const std::string& name, Random& random) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return Failure{system_code(errno), "open a local socket"};
    listener_.assign(socket);
    auto own = name;
    const bool is_bound =
        bind_abstract(socket, own) ||
        (errno == EADDRINUSE &&
         bind_abstract(socket, own += '-' + make_nonce(random).to_short_string()));
    if (!is_bound || ::listen(socket, backlog) != 0) {
        Failure failure{system_code(errno), "listen at @" + own};
        listener_.close();
        return failure;
    }
    name_ = '@' + own;
    wait_for_callers();
    return {};
}

void LocalListener::wait_for_callers() {
    listener_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& ec) {
        if (!ec) accept_all();
    });
}

void LocalListener::accept_all() {
    for (int count = 0; count < callers_at_once; ++count) {
        const int socket =
            ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket < 0 && net::is_shortage(errno)) {
            accept_again_.expires_after(pause_without_descriptors);
            accept_again_.async_wait([this](const boost::system::error_code& ec) {
                if (!ec) wait_for_callers();
            });
            return;
        }
        if (socket < 0) break;
        on_caller_(socket, peer_of(socket));
    }
    wait_for_callers();
}

}  // namespace ddprun::agent::channel
