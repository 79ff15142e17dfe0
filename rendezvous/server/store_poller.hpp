// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace ddprun::server {

/// Which of a store's sockets can be read or written: an epoll of their own, which to the
/// io_context is one descriptor. A socket stays registered, and one wake-up serves all that are
/// ready. (Asio reads once more after each read, which fails, before it waits.)
///
/// Used on the thread of the io_context.
class StorePoller {
public:
    /// Gets the number that a socket was added with, and its events of epoll. True if it took all
    /// that there was to read, and that was something, but little: a client in a dialogue.
    using Ready = std::function<bool(std::uint64_t number, std::uint32_t events)>;

    StorePoller(boost::asio::io_context& io, Ready ready);
    StorePoller(const StorePoller&) = delete;
    StorePoller& operator=(const StorePoller&) = delete;

    /// EPOLLIN first. False without descriptors or memory for it.
    bool add(int socket, std::uint64_t number);
    /// 0: only errors and the end of both directions.
    void change(int socket, std::uint64_t number, std::uint32_t events);
    void remove(int socket);

private:
    bool open();
    void wait();
    void on_ready();
    void handle_ready();

    Ready ready_;
    /// The one socket that was ready the last time, if its client is in a dialogue: tried first.
    std::optional<std::uint64_t> guess_;
    int guess_count_ = 0;
    /// Opened by the first socket.
    boost::asio::posix::stream_descriptor epoll_;
    /// Expired when this is gone: a wait that has ended already checks it.
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ddprun::server
