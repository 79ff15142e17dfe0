// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/transport.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ddprun::groups {

/// Where the ranks of a loopback group meet, all of them threads of one process. The last to arrive
/// performs the collective, adding in the order of ranks. The world of one, and the oracle of the
/// tests. Mismatches are seen at once.
class Loopback {
public:
    explicit Loopback(int world_size);

    /// One rank's end. Keeps the meeting place alive.
    static std::unique_ptr<Transport> transport(std::shared_ptr<Loopback> meeting, int rank);

private:
    class End;

    Outcome run(int rank, const Collective& collective, std::chrono::milliseconds timeout);
    void fail(Trouble trouble);
    void perform();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::optional<Collective>> arrived_;  // by rank
    std::size_t arrived_count_ = 0;
    std::uint64_t performed_count_ = 0;
    std::optional<Trouble> dead_;
};

}  // namespace ddprun::groups
