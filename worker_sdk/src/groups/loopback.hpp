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

/// Performs a collective on the buffers of all ranks, which are in this process. `calls` has the
/// call of each rank, by rank; they are equal but for the buffers.
void perform_together(const std::vector<Collective>& calls);

/// The rendezvous of the ranks of a loopback group, all of them threads of one process. The last
/// rank to arrive performs the collective, combining in the order of ranks. Tests compare other
/// transports with it. Mismatches are detected at once.
class Loopback {
public:
    explicit Loopback(int world_size);

    /// One rank's end. Shares ownership of the rendezvous.
    static std::unique_ptr<Transport> transport(std::shared_ptr<Loopback> loopback, int rank);

private:
    class End;
    /// The two ends of one message, as far as they have arrived.
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
    void fail(GroupError error);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::optional<Collective>> arrived_;  // by rank
    std::size_t arrived_count_ = 0;
    std::uint64_t performed_count_ = 0;
    std::map<std::pair<int, int>, Message> messages_;  // by sender and receiver
    std::optional<GroupError> dead_;
};

}  // namespace ddprun::groups
