// SPDX-License-Identifier: Apache-2.0
#include "ddprun/error.hpp"
#include "worker_sdk/src/store/connection.hpp"

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

}  // namespace

std::shared_ptr<Connection> in_process() {
    return std::make_shared<InProcessStore>();
}

}  // namespace ddprun::store_access
