// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/throw_error.hpp"
#include "ddprun/world.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// The round's key-value store: ranks exchange addresses and small values through it. Uses the
/// protocol of PyTorch's TCPStore, with ddprun's server or PyTorch's.
///
/// A handle: copies share one connection. Any thread may call; calls are answered one after the
/// other, so a `get` that waits delays the rest. Keys under "ddprun/" are reserved for the SDK.
///
/// Every call throws PeerLost when the store is gone and Timeout when it does not answer.
class Store {
public:
    using Milliseconds = std::chrono::milliseconds;

    /// Connects to the store's address in `world`, trying until `timeout`. Where rank 0 hosts the
    /// store, this call opens it on rank 0. The store stays open until that process ends. The end
    /// waits at most twenty seconds: for ranks that have not connected yet, and for ranks still
    /// connected. When an exception destroys the last Store, the hosted store is closed at once.
    /// Without a launcher the store is inside this process.
    static Store connect(const World& world, Milliseconds timeout = std::chrono::minutes(1)) {
        const auto from = world.to_c();
        ddprun_store* handle = nullptr;
        throw_if(ddprun_store_connect(&from, timeout.count(), &handle));
        return Store(handle);
    }

    void set(const std::string& key, const std::string& value) {
        throw_if(ddprun_store_set(handle(), text(key), value.data(), value.size()));
    }

    /// Waits until the key exists. The first form waits half an hour at most, which is longer than
    /// any start-up.
    std::string get(const std::string& key) { return get(key, std::chrono::minutes(30)); }
    std::string get(const std::string& key, Milliseconds timeout) {
        char* value = nullptr;
        std::size_t bytes = 0;
        throw_if(ddprun_store_get(handle(), text(key), timeout.count(), &value, &bytes));
        return taken(value, bytes);
    }

    /// Adds to a counter that starts at 0 and returns the new value. The counter is kept as
    /// decimal text, readable by `get`.
    std::int64_t add(const std::string& key, std::int64_t amount) {
        std::int64_t sum = 0;
        throw_if(ddprun_store_add(handle(), text(key), amount, &sum));
        return sum;
    }

    /// Sets `desired` if the value is `expected` (empty: if there is none); returns the value that
    /// the key has after the call.
    std::string compare_set(
        const std::string& key, const std::string& expected, const std::string& desired) {
        char* value = nullptr;
        std::size_t bytes = 0;
        throw_if(ddprun_store_compare_set(
            handle(),
            text(key),
            expected.data(),
            expected.size(),
            desired.data(),
            desired.size(),
            &value,
            &bytes));
        return taken(value, bytes);
    }

    /// Waits until all keys exist.
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) {
        const auto texts = pointers(keys);
        throw_if(ddprun_store_wait(handle(), texts.data(), texts.size(), timeout.count()));
    }

    /// True when all keys exist. Never waits.
    bool check(const std::vector<std::string>& keys) {
        const auto texts = pointers(keys);
        int exist = 0;
        throw_if(ddprun_store_check(handle(), texts.data(), texts.size(), &exist));
        return exist != 0;
    }

    /// True when there was such a key.
    bool delete_key(const std::string& key) {
        int existed = 0;
        throw_if(ddprun_store_delete_key(handle(), text(key), &existed));
        return existed != 0;
    }

    /// Opens another connection to the same store, for use by another thread.
    Store reconnect(Milliseconds timeout) const {
        ddprun_store* other = nullptr;
        throw_if(ddprun_store_reconnect(handle(), timeout.count(), &other));
        return Store(other);
    }

    /// The address of this end of the connection; empty for a store inside this process.
    std::string local_address() const { return ddprun_store_local_address(handle()); }

    /// Shares the store of a C handle, which may be freed before this.
    static Store sharing(const ddprun_store* store) {
        ddprun_store* handle = nullptr;
        throw_if(ddprun_store_share(store, &handle));
        return Store(handle);
    }

    /// For C functions; belongs to this Store.
    ddprun_store* handle() const { return handle_.get(); }

private:
    explicit Store(ddprun_store* handle) : handle_(handle, ddprun_store_free) {}

    static const char* text(const std::string& key) {
        if (key.find('\0') != std::string::npos) throw UsageError("a key with a zero in it");
        return key.c_str();
    }

    static std::string taken(char* value, std::size_t bytes) {
        const std::unique_ptr<char, void (*)(void*)> owner(value, ddprun_free);
        return std::string(value, bytes);
    }

    static std::vector<const char*> pointers(const std::vector<std::string>& keys) {
        std::vector<const char*> texts;
        texts.reserve(keys.size());
        for (const auto& key : keys)
            texts.push_back(text(key));
        return texts;
    }

    std::shared_ptr<ddprun_store> handle_;
};

}  // namespace ddprun
