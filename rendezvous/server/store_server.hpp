// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/rejections.hpp"
#include "rendezvous/server/store_poller.hpp"
#include "rendezvous/server/store_survey.hpp"
#include "rendezvous/server/wait_watch.hpp"
#include "rendezvous/store/store.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::server {

class StoreConnection;
class Listener;

/// What one store may hold (base/limits.hpp).
struct StoreBounds {
    std::size_t data_bytes = limits::max_store_data_bytes;
    std::size_t client_bytes = limits::max_store_client_bytes;
    Duration unread_reply_timeout = limits::unread_reply_timeout;
};

/// Serves one c10d store over TCP: the shell of store::Store. PyTorch's TCPStore clients (2.2 and
/// newer, 2.1 if they are accepted) and ours connect to it.
///
/// Everything belongs to the thread of the `io_context`. The owner calls `drain`, which lets the
/// clients read their last replies, or `stop`; the destructor acts as `stop`. No callback runs
/// afterwards.
class StoreServer {
public:
    struct Counters {
        std::uint64_t accepted = 0;
        std::uint64_t refused = 0;  ///< callers that sent no store client's greeting
        std::uint64_t requests = 0;
        std::size_t open = 0;
        std::size_t keys = 0;
        std::size_t waits = 0;
        /// Connections closed because they exceeded a bound, or sent a request that can only be
        /// refused by closing.
        std::uint64_t closed = 0;
        std::size_t data_bytes = 0;
        std::size_t client_bytes = 0;
    };

    explicit StoreServer(
        boost::asio::io_context& io,
        StoreBounds bounds = {},
        wire::Accepted accepted = wire::Accepted::current);
    ~StoreServer();
    StoreServer(const StoreServer&) = delete;
    StoreServer& operator=(const StoreServer&) = delete;

    /// Accepts until `drain` or `stop`. May be called for several listeners. When the process has
    /// no descriptor left, callers are closed instead of being left waiting.
    void serve(net::Tcp::acceptor acceptor);
    /// Serves only this user and root. Requires: the acceptor listens at a loopback address.
    void serve_own_user(net::Tcp::acceptor acceptor);

    /// Serves a connection that was accepted elsewhere. `first_bytes` have already been read from
    /// it.
    void adopt(net::Tcp::socket socket, std::string first_bytes);
    /// Serves a socket that is not TCP, whose client is called `peer` in messages.
    void adopt_as(net::Tcp::socket socket, std::string peer);
    Instant now() const { return driver_.now(); }

    /// Stops accepting, sends every client the end of the stream (not a reset), and calls `done`
    /// when all have closed or `timeout` is over.
    void drain(Duration timeout, std::function<void()> done);

    /// Closes everything now.
    void stop();

    /// From now on reports long waits and waits that timed out (WaitWatch). The report has no
    /// round, since a store has none.
    using OnWait = std::function<void(control::StoreWait)>;
    void watch_waits(OnWait on_wait, WaitWatch::Limits limits = {});

    Counters counters() const;
    StoreSurvey survey() const;
    /// The waits of all clients, longest first.
    std::vector<store::Waiters::Waiting> waits(std::size_t longest) const;
    /// "10.0.0.2:51234"; empty if the connection has ended.
    std::string peer_of(ConnectionId connection) const;

private:
    void add(net::Tcp::socket socket, const std::string& first_bytes, std::string peer);
    friend class StoreConnection;

    // Called by connections.
    /// Requires: the event is a Received.
    void received(store::Store::Event&& event);
    void refused(const StoreConnection& connection, const Failure& failure, std::string_view bytes);
    void closed(ConnectionId connection);
    /// What a connection holds has changed.
    void holds(std::size_t before, std::size_t now) { held_bytes_ += now - before; }
    /// A connection has replies that its client does not read. Returns now, from when the timeout
    /// is counted.
    Instant watch_unread();
    /// Closes the connection; logs only the first one of its address.
    void close_over_bound(StoreConnection& connection, const std::string& reason);
    /// Closes the connection after a bad_alloc; logs as `close_over_bound`.
    void close_without_memory(StoreConnection& connection, const std::string& reason);
    /// Between these two calls replies are collected; then each connection is written once.
    void begin_batch();
    void end_batch();

    void perform(store::Store::Effect& effect);
    void flush();
    std::size_t client_bytes() const { return held_bytes_ + driver_.machine().wait_bytes(); }
    /// Closes the connections that hold most until the total is within its bound.
    void keep_within_bound();
    void close_unread();
    void look_at_waits();
    void look_at_waits_later();
    void cancels_wait(ConnectionId client);
    control::StoreWait wait_like_that_of(ConnectionId client) const;
    void flush_soon();
    void close_listeners();
    void wait_for_drain();
    void end_drain_if_empty();

    boost::asio::io_context::executor_type executor() { return io_.get_executor(); }

    boost::asio::io_context& io_;
    net::Driver<store::Store> driver_;
    StorePoller poller_;
    std::unordered_map<std::uint64_t, std::shared_ptr<StoreConnection>> connections_;
    std::vector<std::shared_ptr<Listener>> listeners_;
    std::vector<std::shared_ptr<StoreConnection>> to_flush_;
    bool is_in_batch_ = false;
    bool will_flush_ = false;
    /// The read buffer of all connections; a connection copies bytes that it cannot use at once.
    std::vector<char> turn_;
    /// A buffer for replies, kept while no connection needs it.
    std::string spare_out_;
    std::uint64_t next_id_ = 1;
    Counters counters_;
    StoreBounds bounds_;
    wire::Accepted accepted_;
    /// The memory of all connections; the machine counts their waits.
    std::size_t held_bytes_ = 0;
    Rejections rejections_;
    Rejections closings_;
    boost::asio::steady_timer unread_timer_;
    bool is_watching_unread_ = false;
    /// Set together with `on_wait_`.
    std::optional<WaitWatch> wait_watch_;
    OnWait on_wait_;
    boost::asio::steady_timer wait_timer_;
    boost::asio::steady_timer drain_timer_;
    std::function<void()> drained_;
    /// Expires with the server. The handler of a timer that has already fired checks it.
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ddprun::server
