// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/world.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// The round's key-value store: how ranks find each other and agree on small things. Speaks the
/// protocol of PyTorch's TCPStore, with our server or with PyTorch's.
///
/// A handle: copies share one connection. Any thread may call; calls are answered one after the
/// other, so a `get` that waits holds up the rest. Keys under "ddprun/" are the SDK's own.
///
/// Every call throws PeerLost when the store is gone and Timeout when it does not answer.
class Store {
public:
    using Milliseconds = std::chrono::milliseconds;
    class Shared;  // the SDK's own

    /// Connects to `world.master_addr`:`world.master_port`, trying until `timeout`. In a world that
    /// nobody launched: a store inside this process.
    static Store connect(const World& world, Milliseconds timeout = std::chrono::minutes(1));

    Store(const Store&);
    Store(Store&&) noexcept;
    Store& operator=(const Store&);
    Store& operator=(Store&&) noexcept;
    ~Store();

    void set(const std::string& key, const std::string& value);

    /// Waits until the key exists. The second form waits at most that long.
    std::string get(const std::string& key);
    std::string get(const std::string& key, Milliseconds timeout);

    /// Adds to a counter that starts at 0 and returns the new value. The counter is kept as
    /// decimal text, readable by `get`.
    std::int64_t add(const std::string& key, std::int64_t amount);

    /// Sets `desired` if the value is `expected` (empty: if there is none); returns the value that
    /// the key then has.
    std::string compare_set(
        const std::string& key, const std::string& expected, const std::string& desired);

    /// Waits until all keys exist.
    void wait(const std::vector<std::string>& keys, Milliseconds timeout);

    /// True when all keys exist. Never waits.
    bool check(const std::vector<std::string>& keys);

    /// True when there was such a key.
    bool delete_key(const std::string& key);

    /// Another connection to the same store, for a thread of its own.
    Store reconnect(Milliseconds timeout) const;

    /// The address of this end of the connection; empty for a store inside this process.
    std::string local_address() const;

private:
    friend class ProcessGroup;
    explicit Store(std::shared_ptr<Shared> shared);

    std::shared_ptr<Shared> shared_;
};

}  // namespace ddprun
