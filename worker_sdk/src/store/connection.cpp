// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/store/connection.hpp"

#include "ddprun/error.hpp"
#include "rendezvous/client/client_error.hpp"
#include "rendezvous/client/store_client.hpp"
#include "rendezvous/wire/error.hpp"
#include "worker_sdk/src/store/local_address.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <boost/system/errc.hpp>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

namespace ddprun::store_access {
namespace {

/// The store of a single process: a map that answers like the real store.
class InProcessStore : public Connection, public std::enable_shared_from_this<InProcessStore> {
public:
    void set(const std::string& key, const std::string& value) override {
        const std::lock_guard lock(mutex_);
        values_[key] = value;
        changed_.notify_all();
    }

    std::string get(const std::string& key, Milliseconds timeout) override {
        std::unique_lock lock(mutex_);
        await(lock, {key}, timeout);
        return values_[key];
    }

    std::int64_t add(const std::string& key, std::int64_t amount) override {
        const std::lock_guard lock(mutex_);
        auto& value = values_[key];
        std::int64_t number = 0;
        const auto* end = value.data() + value.size();
        if (!value.empty() && std::from_chars(value.data(), end, number).ptr != end)
            throw UsageError("add to " + key + ": its value is no number");
        number += amount;
        value = std::to_string(number);
        changed_.notify_all();
        return number;
    }

    std::string compare_set(
        const std::string& key, const std::string& expected, const std::string& desired) override {
        const std::lock_guard lock(mutex_);
        const auto found = values_.find(key);
        if (found == values_.end()) {
            if (!expected.empty()) return expected;  // like the real store
            values_[key] = desired;
            changed_.notify_all();
            return desired;
        }
        if (found->second == expected) found->second = desired;
        return found->second;
    }

    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override {
        std::unique_lock lock(mutex_);
        await(lock, keys, timeout);
    }

    bool check(const std::vector<std::string>& keys) override {
        const std::lock_guard lock(mutex_);
        return has_all(keys);
    }

    bool delete_key(const std::string& key) override {
        const std::lock_guard lock(mutex_);
        return values_.erase(key) > 0;
    }

    void set_reply_timeout(Milliseconds) override {}
    std::string local_address() const override { return {}; }
    std::shared_ptr<Connection> reconnect(Milliseconds) override { return shared_from_this(); }

private:
    bool has_all(const std::vector<std::string>& keys) const {
        return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
            return values_.count(key) > 0;
        });
    }

    void await(
        std::unique_lock<std::mutex>& lock,
        const std::vector<std::string>& keys,
        Milliseconds timeout) {
        if (changed_.wait_for(lock, timeout, [&] { return has_all(keys); })) return;
        throw Timeout(
            "store: waited " + std::to_string(timeout.count()) + " ms for " + keys.front());
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::string> values_;
};

[[noreturn]] void throw_failure(const Failure& failure) {
    const auto text = "store: " + failure.describe();
    if (failure.code == boost::system::errc::timed_out) throw Timeout(text);
    if (failure.code == client::Error::no_answer) throw Timeout(text);
    // A key or value exceeds the limits; nothing was sent.
    if (failure.code.category() == wire::error_category()) throw UsageError(text);
    throw PeerLost(text);
}

template <class T>
T value_of(Result<T> result) {
    if (!result) throw_failure(result.error());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// The round's store over one connection.
class RemoteStore : public Connection {
public:
    RemoteStore(std::shared_ptr<void> keeps, client::StoreClient client, Endpoint server)
        : keeps_(std::move(keeps)),
          client_(std::move(client)),
          server_(std::move(server)) {}

    void set(const std::string& key, const std::string& value) override {
        value_of(client_.set(key, value));
    }
    std::string get(const std::string& key, Milliseconds timeout) override {
        return value_of(client_.get(key, timeout));
    }
    std::int64_t add(const std::string& key, std::int64_t amount) override {
        return value_of(client_.add(key, amount));
    }
    std::string compare_set(
        const std::string& key, const std::string& expected, const std::string& desired) override {
        return value_of(client_.compare_set(key, expected, desired));
    }
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override {
        value_of(client_.wait(keys, timeout));
    }
    bool check(const std::vector<std::string>& keys) override {
        return value_of(client_.check(keys));
    }
    bool delete_key(const std::string& key) override { return value_of(client_.delete_key(key)); }

    void set_reply_timeout(Milliseconds timeout) override {
        client_.set_timeout(std::min(timeout, waiting_times::longest_reply));
    }

    std::string local_address() const override { return local_address_towards(server_); }
    std::shared_ptr<Connection> reconnect(Milliseconds timeout) override {
        return connect(server_, timeout, keeps_);
    }

private:
    std::shared_ptr<void> keeps_;  // first: it is released after the connection is closed
    client::StoreClient client_;
    Endpoint server_;
};

}  // namespace

std::shared_ptr<Connection> in_process() {
    return std::make_shared<InProcessStore>();
}

std::shared_ptr<Connection> connect(
    const Endpoint& server, Milliseconds timeout, std::shared_ptr<void> keeps) {
    auto client = client::StoreClient::connect({.endpoint = server, .timeout = timeout});
    if (!client) throw_failure(client.error());
    auto store = std::make_shared<RemoteStore>(std::move(keeps), std::move(*client), server);
    store->set_reply_timeout(timeout);
    return store;
}

}  // namespace ddprun::store_access
