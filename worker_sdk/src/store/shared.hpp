// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// What the copies of a Store share: a connection (remote.cpp) or a map (in_process.cpp). Any
/// thread; an implementation serialises by itself.
class Store::Shared {
public:
    virtual ~Shared() = default;

    virtual void set(const std::string& key, const std::string& value) = 0;
    virtual std::string get(const std::string& key, Milliseconds timeout) = 0;
    virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
    virtual std::string compare_set(
        const std::string& key, const std::string& expected, const std::string& desired) = 0;
    virtual void wait(const std::vector<std::string>& keys, Milliseconds timeout) = 0;
    virtual bool check(const std::vector<std::string>& keys) = 0;
    virtual bool delete_key(const std::string& key) = 0;

    virtual std::string local_address() const = 0;
    virtual std::shared_ptr<Shared> reconnect(Milliseconds timeout) = 0;

    /// The store of a world that nobody launched.
    static std::shared_ptr<Shared> in_process();
    /// Tries until `timeout`; throws PeerLost when nobody answers.
    static std::shared_ptr<Shared> connect(
        const std::string& host, std::uint16_t port, Milliseconds timeout);
};

}  // namespace ddprun
