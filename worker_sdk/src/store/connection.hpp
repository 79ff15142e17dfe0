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

/// What a ddprun_store is: a connection (remote.cpp) or a map (in_process.cpp). Any thread; an
/// implementation serialises by itself. Throws as ddprun/store.hpp says.
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

    /// From now on; a minute at most. Waits for a key have their own.
    virtual void set_reply_timeout(Milliseconds timeout) = 0;

    virtual std::string local_address() const = 0;
    virtual std::shared_ptr<Connection> reconnect(Milliseconds timeout) = 0;
};

/// The store of a world that nobody launched.
std::shared_ptr<Connection> in_process();

/// Tries until `timeout`, which is then that of each reply; throws PeerLost when nobody answers.
/// `keeps` lives as long as the connection and those made from it, and a little longer.
std::shared_ptr<Connection> connect(
    const Endpoint& server, Milliseconds timeout, std::shared_ptr<void> keeps = nullptr);

/// Where the world says: one of the above, after opening the store if this rank is to host it.
std::shared_ptr<Connection> connect(const World& world, Milliseconds timeout);

}  // namespace ddprun::store_access
