// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/scratch.hpp"
#include "worker_sdk/src/transports/gloo/abortable.hpp"
#include "worker_sdk/src/transports/gloo/plugin_abi.hpp"
#include "worker_sdk/src/transports/gloo/sockets.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

/// Peers whose connection is broken; none, with an empty text.
struct Lost {
    std::vector<int> ranks;
    std::string text;
};

/// A peer to which no connection could be made.
struct ConnectFailed {
    int peer;
    std::string text;
};

/// Ranks that are all connected with each other. Contracts of groups::Transport.
class Mesh {
public:
    /// Listens. Throws what Gloo throws.
    explicit Mesh(const DdprunOpen& settings);

    /// Throws StoreFailed, ConnectFailed, or what Gloo throws. What is connected by then stays so.
    void connect(const DdprunStore& store);

    std::size_t rank() const { return static_cast<std::size_t>(context_->rank); }
    std::size_t size() const { return static_cast<std::size_t>(context_->size); }
    /// For Gloo's collectives, and for messages.
    const std::shared_ptr<AbortableContext>& context() const { return context_; }
    AbortableTransport& transport() const { return *transport_; }
    /// Memory for one collective. Kept for the next: fresh pages would cost more than the network.
    char* scratch(std::size_t bytes) { return scratch_.of(bytes); }

    /// Closes all connections and wakes all waiting threads.
    void abort();
    /// Which connections were broken when `abort` was first called; nothing before.
    std::optional<Lost> aborted();

    /// Whether a connection has ended, once all were there. Cheap.
    bool is_broken() const { return is_connected_ && is_any_closed(sockets_); }
    /// Which ones, with Gloo's error text.
    Lost broken_connections() const;

private:
    using Addresses = std::vector<std::vector<char>>;

    Addresses exchange_addresses(const DdprunStore& store);
    void connect_to(int peer, const std::vector<char>& addresses_of_peer);
    bool end_connecting();
    void close_pairs();

    Sockets sockets_before_;
    std::shared_ptr<AbortableContext> context_;
    std::shared_ptr<AbortableTransport> transport_;
    Sockets sockets_;
    std::atomic<bool> is_connected_ = false;
    std::mutex abort_mutex_;
    /// Pairs are being connected, which have no waits to wake.
    bool is_connecting_ = true;
    std::optional<Lost> aborted_;
    Scratch<char> scratch_;
};

/// "[./gloo/transport/tcp/pair.cc:589] Read error ..." -> "Read error ..."
std::string without_place(const std::string& text);

}  // namespace ddprun::groups
