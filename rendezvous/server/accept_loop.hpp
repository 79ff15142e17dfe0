// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/net/tcp.hpp"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>

namespace ddprun::server {

/// Accepts on one listening socket and hands over every connection, closed on exec from its first
/// moment (another thread may be starting a program).
///
/// Survives the end of file descriptors: it keeps one in reserve, so that a caller is turned away
/// instead of hanging in the kernel's queue, says so once, and goes on when there are some again.
/// Used on the thread of the acceptor's `io_context`.
class AcceptLoop : public std::enable_shared_from_this<AcceptLoop> {
public:
    using Accepted = std::function<void(net::Tcp::socket)>;

    AcceptLoop(net::Tcp::acceptor acceptor, Accepted accepted);
    ~AcceptLoop();
    AcceptLoop(const AcceptLoop&) = delete;
    AcceptLoop& operator=(const AcceptLoop&) = delete;

    void start();
    /// No connection is handed over any more.
    void close();

private:
    boost::asio::awaitable<void> run();
    /// Takes whoever waits now. False: the system refuses, and a pause is due.
    bool accept_all();
    bool turn_away();

    net::Tcp::acceptor acceptor_;
    Accepted accepted_;
    boost::asio::steady_timer pause_;
    int reserve_ = -1;
    bool is_out_of_descriptors_ = false;
};

}  // namespace ddprun::server
