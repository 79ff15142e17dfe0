// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace ddprun::server {

/// Reports which of a store's sockets can be read or written, by a separate epoll, which is one
/// descriptor in the io_context. A socket stays registered, and one wake-up serves all ready
/// sockets. (Asio would add a failing read before each wait.)
///
/// Used on the thread of the io_context.
class StorePoller {
public:
    /// Called with the number given to `add` for this socket, and its epoll events. Returns true
    /// for a client in a dialogue: a few bytes were read, and no more were there.
    using Ready = std::function<bool(std::uint64_t number, std::uint32_t events)>;

    StorePoller(boost::asio::io_context& io, Ready ready);
    StorePoller(const StorePoller&) = delete;
    StorePoller& operator=(const StorePoller&) = delete;

    /// Starts with EPOLLIN. Returns false when descriptors or memory are missing.
    bool add(int socket, std::uint64_t number);
    /// With 0 only errors and the end of both directions are reported.
    void change(int socket, std::uint64_t number, std::uint32_t events);
    void remove(int socket);

private:
    bool open();
    void wait();
    void on_ready();
    void handle_ready();

    Ready ready_;
    /// The only socket that was ready the last time, if its client is in a dialogue: it is tried
    /// first.
    std::optional<std::uint64_t> guess_;
    int guess_count_ = 0;
    /// Opened when the first socket is added.
    boost::asio::posix::stream_descriptor epoll_;
    /// Expires with this object. The handler of a wait that has already ended checks it.
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ddprun::server
