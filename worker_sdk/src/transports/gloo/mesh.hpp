// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/gloo/abortable.hpp"
#include "worker_sdk/src/transports/gloo/plugin_abi.hpp"
#include "worker_sdk/src/transports/gloo/sockets.hpp"

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

/// Ranks that are all connected with each other. Contracts of groups::Transport.
class Mesh {
public:
    /// Throws StoreFailed, or what Gloo throws.
    explicit Mesh(const DdprunOpen& settings);

    std::size_t rank() const { return static_cast<std::size_t>(context_->rank); }
    std::size_t size() const { return static_cast<std::size_t>(context_->size); }
    /// For Gloo's collectives, and for messages.
    const std::shared_ptr<AbortableContext>& context() const { return context_; }
    AbortableTransport& transport() const { return *transport_; }

    /// Closes all connections and wakes all waiting threads.
    void abort();
    /// Which connections were broken when `abort` was first called; nothing before.
    std::optional<Lost> aborted();

    /// Whether a connection has ended. Cheap.
    bool is_broken() const { return is_any_closed(sockets_); }
    /// Which ones, with Gloo's error text.
    Lost broken_connections() const;

private:
    std::shared_ptr<AbortableContext> context_;
    std::shared_ptr<AbortableTransport> transport_;
    Sockets sockets_;
    std::mutex abort_mutex_;
    std::optional<Lost> aborted_;
};

/// "[./gloo/transport/tcp/pair.cc:589] Read error ..." -> "Read error ..."
std::string without_place(const std::string& text);

}  // namespace ddprun::groups
