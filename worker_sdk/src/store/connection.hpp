// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/world.hpp"
#include "rendezvous/base/endpoint.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::store_access {

using Milliseconds = std::chrono::milliseconds;

/// The implementation of a ddprun_store: a socket, or a map in this process. Any
/// thread; each implementation locks by itself. Throws as documented in ddprun/store.hpp.
class Connection {
public:
    virtual ~Connection() = default;

    virtual void set(const std::string& key, const std::string& value) = 0;
    virtual std::string get(const std::string& key, Milliseconds timeout) = 0;
    virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
    virtual std::string compare_set(
        const std::string& key, const std::string& expected, const std::string& desired) = 0;
    virtual void wait(const std::vector<std::string>& keys, Milliseconds timeout) = 0;
    virtual bool check(const std::vector<std::string>& keys) = 0;
    virtual bool delete_key(const std::string& key) = 0;

    /// The timeout of later replies, a minute at most. A wait for a key has its own timeout.
    virtual void set_reply_timeout(Milliseconds timeout) = 0;

    virtual std::string local_address() const = 0;
    virtual std::shared_ptr<Connection> reconnect(Milliseconds timeout) = 0;
};

/// The store of a world without a launcher.
std::shared_ptr<Connection> in_process();

/// Tries until `timeout`, which is then the timeout of each reply. Throws PeerLost when the store
/// does not answer. `keeps` outlives this connection and those made from it.
std::shared_ptr<Connection> connect(
    const Endpoint& server, Milliseconds timeout, std::shared_ptr<void> keeps = nullptr);

/// Connects to the store that the world names, after opening it if this rank hosts it.
std::shared_ptr<Connection> connect(const World& world, Milliseconds timeout);

}  // namespace ddprun::store_access
