// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::server {

/// The state of the c10d stores of this process, for the status page.
struct StoreSurvey {
    struct Wait {
        /// The first key that is missing.
        std::string key;
        std::uint64_t more_keys = 0;
        /// "10.0.0.2:51234".
        std::string peer;
        double since_s = 0;
        bool operator==(const Wait&) const = default;
    };

    /// Counts since the process began.
    std::uint64_t requests = 0;
    std::uint64_t refused_requests = 0;
    // Counts now.
    std::uint64_t connections = 0;
    std::uint64_t keys = 0;
    std::uint64_t waits = 0;
    /// Bytes of keys, queues and values, and the bytes that clients cause in addition.
    std::uint64_t data_bytes = 0;
    std::uint64_t client_bytes = 0;
    /// The oldest waits, at most limits::max_status_waits of each store.
    std::vector<Wait> longest;

    void add(const StoreSurvey& other) {
        requests += other.requests;
        refused_requests += other.refused_requests;
        connections += other.connections;
        keys += other.keys;
        waits += other.waits;
        data_bytes += other.data_bytes;
        client_bytes += other.client_bytes;
        longest.insert(longest.end(), other.longest.begin(), other.longest.end());
    }
};

/// Queries stores that run on another thread. The answer is called on any thread, or never if that
/// thread ends.
using AskStores = std::function<void(std::function<void(StoreSurvey)> answer)>;

}  // namespace ddprun::server
