// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/gloo/plugin_abi.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::groups {

/// The store failed; the SDK's side has the error.
struct StoreFailed {
    int kind;
};

/// The addresses of a mesh in the round's store: of each rank one for every other rank, in the
/// order of their numbers, all of the same length.
class Rendezvous {
public:
    explicit Rendezvous(const DdprunStore& store) : store_(store) {}

    void publish(int rank, const std::vector<char>& addresses) {
        const auto key = std::to_string(rank);
        if (const int kind =
                store_.set(store_.self, key.c_str(), addresses.data(), addresses.size()))
            throw StoreFailed{kind};
    }

    /// Waits for them.
    std::vector<char> addresses_of(int rank) {
        std::vector<char> addresses;
        const auto take = [](void* sink, const char* data, std::size_t bytes) {
            static_cast<std::vector<char>*>(sink)->assign(data, data + bytes);
        };
        if (const int kind =
                store_.get(store_.self, std::to_string(rank).c_str(), &addresses, take))
            throw StoreFailed{kind};
        return addresses;
    }

private:
    DdprunStore store_;
};

}  // namespace ddprun::groups
