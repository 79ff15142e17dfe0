// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/failure_monitor.hpp"
#include "worker_sdk/src/groups/transport.hpp"
#include "worker_sdk/src/transports/host/peers.hpp"
#include "worker_sdk/src/transports/host/segment.hpp"
#include "worker_sdk/src/transports/host/shared_arena.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

namespace ddprun::groups {

/// The ranks of one host, in shared memory. Every rank performs the same steps in each collective:
///
/// 1. Copies small or foreign memory to its stage; memory from `allocate` stays in place.
/// 2. Posts its call and synchronizes: increments `arrived` and waits for the others'. Then the
///    calls are compared: a rank in another call is a mismatch for all.
/// 3. Copies its result from the others' stages, or directly from their memory.
/// 4. Where stages are too small, again from 1 with the next chunk; where memory itself was read,
///    synchronizes once more before any rank may write to it.
///
/// Stages alternate, so no rank waits for the slowest reader of the stage before.
class HostTransport : public Transport {
public:
    /// `rank` and the segment's ranks are those of this host; `names` are their ranks in the group.
    /// Requires: every seat is taken.
    HostTransport(
        std::shared_ptr<Segment> segment,
        int rank,
        std::vector<int> names,
        std::shared_ptr<FailureMonitor> monitor);
    ~HostTransport() override;

    Outcome run(const Collective& collective, std::chrono::milliseconds timeout) override;
    void abort() override;
    bool is_broken() override { return false; }  // `run` detects a broken peer at once
    bool is_quick(const Collective& collective) const override;
    bool is_for_any_thread() const override { return true; }
    std::vector<int> missing() override;
    std::shared_ptr<Arena> arena() override { return arena_; }

    /// One step of a collective over several hosts: `step` is this host's part, whose root is
    /// numbered within this host; `whole` is the program's call, for comparison and error texts.
    Outcome run_step(
        const Collective& step, const Collective& whole, std::chrono::milliseconds timeout);
    /// Ends the group for all ranks of this host.
    void fail(const GroupError& error) { segment_->fail(rank_, error); }

private:
    struct Chunk;
    class PartExchange;
    struct Wait {
        /// The program's call.
        const Collective& whole;
        SpinPolicy& spin_policy;
        std::chrono::milliseconds timeout;
        /// Set at the first sleep.
        std::optional<std::chrono::steady_clock::time_point> since{};
        std::chrono::steady_clock::time_point renewed{};
        bool is_monitored = false;

        FailureMonitor::Wait monitored() const { return {queue_of(whole), *since, whole}; }
    };

    bool perform(const Collective& step, const Collective& whole, Wait& wait);
    bool exchange_parts(const Collective& call, Wait& wait);
    bool perform_direct(const Collective& step, Wait& wait);
    bool perform_staged(const Collective& step, Wait& wait);
    bool reduce_in_slices(const Collective& step, const Chunk& chunk, Wait& wait);
    void reduce_in_place(const Collective& step);
    void collect(const Collective& step, const Chunk& chunk);
    void deposit(const Collective& step, const Chunk& chunk);
    Chunk chunk_at(const Collective& step, std::size_t start) const;
    bool gives(const Collective& step) const;
    std::uint64_t offset_given(const Collective& step) const;
    const Posted& posted_by(int rank) const;
    std::byte* source(const Collective& step, const Chunk& chunk, int from, int to) const;
    std::vector<const std::byte*> sources(const Collective& step, const Chunk& chunk, int to) const;

    bool send(const Collective& message, Wait& wait);
    bool receive(const Collective& message, Wait& wait);

    bool meet(Wait& wait);
    bool compare(const Collective& mine, const Posted& theirs, int rank);
    bool await(Counter& counter, std::uint32_t target, int rank, Wait& wait);
    void renew(Wait& wait, std::chrono::steady_clock::time_point now);
    Outcome outcome_of(bool is_done, const Wait& wait);
    void fail_by(FailureDetector::Event fact) { fail(monitor_->find(std::move(fact))); }
    std::vector<int> late_with(const Counter& counter, std::uint32_t target, int rank) const;
    std::vector<int> named(std::vector<int> ranks) const;
    int seat_of(int name) const;

    std::shared_ptr<Segment> segment_;
    int rank_;
    std::vector<int> names_;
    std::shared_ptr<FailureMonitor> monitor_;
    Peers peers_;
    std::shared_ptr<SharedArena> arena_;
    /// For collectives, sends and receives, each of which may have its own thread.
    std::array<SpinPolicy, 3> spin_policies_;
    std::atomic<std::uint32_t> met_count_;
    std::uint64_t call_count_ = 0;
    std::uint64_t turn_ = 0;
};

}  // namespace ddprun::groups
