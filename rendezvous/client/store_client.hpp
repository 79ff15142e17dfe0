// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::client {

struct StoreOptions {
    Endpoint endpoint;
    /// For connecting, and for every operation without its own timeout.
    Duration timeout = std::chrono::seconds{300};
    /// Counts this client in PyTorch's `init/` key, as PyTorch's clients do when a world size is
    /// given.
    bool count_as_worker = false;
};

/// A program's access to a c10d store, as `torch.distributed.TCPStore` in Python. The keys on the
/// wire are the same ("/" in front of every key), so both can share one store.
///
/// Copies and `with_prefix` share one connection and may be used from several threads; a blocking
/// call keeps the others waiting, as in PyTorch. `clone` makes a connection of its own. A timeout
/// is the failure `errc::timed_out` with PyTorch's text ("wait timeout after 100ms, keys: /k");
/// after a timeout the store is usable, unless the failure says that the server did not answer.
class StoreClient {
public:
    static Result<StoreClient> connect(StoreOptions options);

    /// Every key gets `prefix/` in front: PyTorch's PrefixStore. Can be nested.
    StoreClient with_prefix(const std::string& prefix) const;
    /// The same keys over a new connection.
    Result<StoreClient> clone() const;

    /// Returns once the value is sent. The server handles later calls on this connection after it.
    Result<> set(const std::string& key, std::string value);
    /// Waits for the key.
    Result<std::string> get(const std::string& key);
    Result<std::string> get(const std::string& key, Duration timeout);
    /// Adds to a decimal counter, which is 0 if missing, and returns the new value. `add(key, 0)`
    /// reads it.
    Result<std::int64_t> add(const std::string& key, std::int64_t delta);
    /// Whether all of the keys exist.
    Result<bool> check(const std::vector<std::string>& keys);
    Result<> wait(const std::vector<std::string>& keys);
    Result<> wait(const std::vector<std::string>& keys, Duration timeout);
    /// Stores `desired` if the value is `expected` (empty: or if the key is missing). Returns the
    /// value afterwards; when the key is missing and `expected` is not empty, it returns
    /// `expected`.
    Result<std::string> compare_set(
        const std::string& key, std::string expected, std::string desired);
    Result<> append(const std::string& key, std::string value);
    /// Waits for all of the keys. Without keys there are no values and nothing is sent.
    Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys);
    Result<> multi_set(const std::vector<std::pair<std::string, std::string>>& pairs);
    /// True when the key existed.
    Result<bool> delete_key(const std::string& key);
    /// The number of all keys of the server, including other prefixes and PyTorch's `init/`.
    Result<std::int64_t> num_keys();
    /// All keys that have this store's prefix, returned without it.
    Result<std::vector<std::string>> list_keys();

    Result<> queue_push(const std::string& key, std::string value);
    /// Waits for an element.
    Result<std::string> queue_pop(const std::string& key);
    Result<std::string> queue_pop(const std::string& key, Duration timeout);
    /// None when the queue is empty.
    Result<std::optional<std::string>> try_queue_pop(const std::string& key);
    Result<std::int64_t> queue_len(const std::string& key);

    /// Waits until `world_size` clients have called `barrier` with this key. Each key can be used
    /// once. Through a prefix it is implemented by ADD, SET and WAIT, as in PyTorch's PrefixStore.
    Result<> barrier(const std::string& key, std::int64_t world_size);
    Result<> barrier(const std::string& key, std::int64_t world_size, Duration timeout);

    Result<> ping();
    /// Waits until `world_size` clients are counted in `init/`.
    Result<> wait_for_workers(std::int64_t world_size, Duration timeout);

    void set_timeout(Duration timeout) { timeout_ = timeout; }
    Duration timeout() const { return timeout_; }

private:
    struct Connection;

    StoreClient(std::shared_ptr<Connection> connection, StoreOptions options);

    std::string on_wire(const std::string& key) const { return prefix_ + key; }
    std::vector<std::string> on_wire(const std::vector<std::string>& keys) const;

    std::shared_ptr<Connection> connection_;
    StoreOptions options_;
    Duration timeout_;
    /// "/" followed by every "prefix/".
    std::string prefix_ = "/";
};

}  // namespace ddprun::client
