// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/transport.hpp"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::groups {

/// Performs a collective on the buffers of all ranks, which lie in this process. `calls` are
/// theirs, by rank, and are the same call.
void perform_together(const std::vector<Collective>& calls);

/// Where the ranks of a loopback group meet, all of them threads of one process. The last to arrive
/// performs the collective, combining in the order of ranks. The oracle of the tests. Mismatches
/// are seen at once.
class Loopback {
public:
    explicit Loopback(int world_size);

    /// One rank's end. Keeps the meeting place alive.
    static std::unique_ptr<Transport> transport(std::shared_ptr<Loopback> meeting, int rank);

private:
    class End;
    /// The two ends of one message, as far as they have come.
    struct Message {
        std::optional<Collective> here;
        std::uint64_t moved_count = 0;
    };

    Outcome run(int rank, const Collective& collective, std::chrono::milliseconds timeout);
    Outcome move(const Collective& collective, std::chrono::milliseconds timeout);
    Outcome fail_as_mismatch(int rank, const Collective& mine, int other, const Collective& theirs);
    template <class Done>
    Outcome await(
        std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout, Done is_done);
    void fail(Trouble trouble);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::optional<Collective>> arrived_;  // by rank
    std::size_t arrived_count_ = 0;
    std::uint64_t performed_count_ = 0;
    std::map<std::pair<int, int>, Message> messages_;  // by sender and receiver
    std::optional<Trouble> dead_;
};

}  // namespace ddprun::groups
