// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/gloo/plugin_abi.hpp"

#include <gloo/rendezvous/store.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::groups {

/// The store failed; the SDK's side has the error.
struct StoreFailed {
    int kind;
};

/// Gloo's rendezvous through the round's store.
class Rendezvous : public gloo::rendezvous::Store {
public:
    explicit Rendezvous(const DdprunStore& store) : store_(store) {}

    void set(const std::string& key, const std::vector<char>& data) override {
        if (const int kind = store_.set(store_.self, key.c_str(), data.data(), data.size()))
            throw StoreFailed{kind};
    }

    std::vector<char> get(const std::string& key) override {
        std::vector<char> value;
        const auto take = [](void* sink, const char* data, std::size_t bytes) {
            static_cast<std::vector<char>*>(sink)->assign(data, data + bytes);
        };
        if (const int kind = store_.get(store_.self, key.c_str(), &value, take))
            throw StoreFailed{kind};
        return value;
    }

    void wait(const std::vector<std::string>& keys) override {
        for (const auto& key : keys)
            get(key);
    }

    /// The base class would wait without a limit; the SDK's `get` has its own deadline.
    void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
        wait(keys);
    }

private:
    DdprunStore store_;
};

}  // namespace ddprun::groups
