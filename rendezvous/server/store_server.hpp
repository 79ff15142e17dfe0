// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/rejections.hpp"
#include "rendezvous/server/store_survey.hpp"
#include "rendezvous/store/store.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::server {

class StoreConnection;
class Listener;

/// Serves one c10d store over TCP: the shell of store::Store. PyTorch's TCPStore clients (2.2 and
/// newer) and ours connect to it.
///
/// Everything belongs to the thread of the `io_context`. The owner calls `drain` and lets the
/// clients leave, or `stop`; the destructor is as `stop`. No callback runs afterwards.
class StoreServer {
public:
    struct Counters {
        std::uint64_t accepted = 0;
        std::uint64_t refused = 0;  ///< what did not greet as a store client does
        std::uint64_t requests = 0;
        std::size_t open = 0;
        std::size_t keys = 0;
        std::size_t waits = 0;
    };

    explicit StoreServer(boost::asio::io_context& io);
    ~StoreServer();
    StoreServer(const StoreServer&) = delete;
    StoreServer& operator=(const StoreServer&) = delete;

    /// Accepts until `drain` or `stop`. May be called for several listeners. Goes on accepting when
    /// the process has no descriptor left: callers are then turned away instead of left waiting.
    void serve(net::Tcp::acceptor acceptor);

    /// Serves a connection that was accepted elsewhere, with what was read from it already.
    void adopt(net::Tcp::socket socket, std::string first_bytes);

    /// Stops accepting, sends every client the end of the stream (not a reset), and calls `done`
    /// when all have closed or `timeout` is over.
    void drain(Duration timeout, std::function<void()> done);

    /// Closes everything now.
    void stop();

    Counters counters() const;
    StoreSurvey survey() const;
    /// The waits of all clients, longest first.
    std::vector<store::Waiters::Waiting> waits(std::size_t longest) const;
    /// "10.0.0.2:51234", or empty if this connection is gone.
    std::string peer_of(ConnectionId connection) const;

private:
    friend class StoreConnection;

    // Called by connections.
    void received(ConnectionId from, wire::Request request);
    void refused(const StoreConnection& connection, const Failure& failure, std::string_view bytes);
    void closed(ConnectionId connection);
    /// Between these two, replies are collected; then there is one write per connection.
    void begin_batch() { is_in_batch_ = true; }
    void end_batch();

    void perform(store::Store::Effect& effect);
    void flush();
    void flush_soon();
    void close_listeners();
    void wait_for_drain();
    void end_drain_if_empty();

    net::Driver<store::Store> driver_;
    std::unordered_map<std::uint64_t, std::shared_ptr<StoreConnection>> connections_;
    std::vector<std::shared_ptr<Listener>> listeners_;
    std::vector<std::shared_ptr<StoreConnection>> to_flush_;
    bool is_in_batch_ = false;
    bool will_flush_ = false;
    /// Where connections read what does not fit into their own small buffers.
    std::vector<char> big_chunk_;
    std::uint64_t next_id_ = 1;
    Counters counters_;
    Rejections rejections_;
    boost::asio::steady_timer drain_timer_;
    std::function<void()> drained_;
    /// Expired when the server is gone: a timer that has fired already checks this.
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ddprun::server
