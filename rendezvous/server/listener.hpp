// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::server {

/// Accepts connections on one listening socket and passes them to `take`. Each is closed on exec
/// from the start.
///
/// When the process has no descriptor left, a spare one is closed for a moment to accept the client
/// and close its connection. So the client fails at once, and the listener does not spin. When the
/// kernel drops callers because too many wait already, that is logged.
class Listener : public std::enable_shared_from_this<Listener> {
public:
    using Take = std::function<void(net::Tcp::socket)>;
    enum class Callers : std::uint8_t {
        any,
        /// On a loopback address, which only users of this machine can reach, only these callers
        /// are served: this user, root, and callers whose user cannot be determined.
        own_user_on_loopback,
        /// The same, but a caller whose user cannot be determined is closed. Requires: a loopback
        /// address.
        own_user,
    };

    Listener(net::Tcp::acceptor acceptor, Take take, Callers callers = Callers::any);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    void start() { wait(); }
    /// Accepts now all callers that connected before this call.
    void take_waiting();
    /// `take` is not called again.
    void close();

private:
    enum class Accepted { one, none_waiting, later };

    void wait();
    void on_ready();
    Accepted accept_one();
    Accepted accept_with_spare();
    void serve(int descriptor);
    bool admits(const net::Tcp::socket& socket);
    bool is_strict() const { return callers_ == Callers::own_user; }
    void pause();
    void notice_dropped_callers();

    net::Tcp::acceptor acceptor_;
    net::Tcp protocol_;
    Take take_;
    Callers callers_;
    bool asks_for_user_;
    bool has_refused_user_ = false;
    bool has_missed_user_ = false;
    bool has_closed_unasked_ = false;
    boost::asio::steady_timer pause_;
    int spare_ = -1;
    /// The drops before this listener existed: an inherited socket may already have some.
    std::uint32_t dropped_before_;
    bool has_reported_drops_ = false;
    bool has_complained_ = false;
    bool is_closed_ = false;
};

}  // namespace ddprun::server
