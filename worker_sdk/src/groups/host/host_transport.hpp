// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/host/peers.hpp"
#include "worker_sdk/src/groups/host/segment.hpp"
#include "worker_sdk/src/groups/host/shared_arena.hpp"
#include "worker_sdk/src/groups/transport.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

namespace ddprun::groups {

/// The ranks of one host, in shared memory. Every rank is in every collective with the same steps:
///
/// 1. Small or foreign memory is copied to this rank's stage; memory from `allocate` stays where it
/// is.
/// 2. Each posts its call and *meets* the others (counts `arrived` up and waits for theirs). Now
/// the
///    calls are compared: a rank that does something else is a mismatch for all.
/// 3. Each takes what it needs from the others' stages, or straight from their memory.
/// 4. Where stages are too small, again from 1 with the next chunk; where memory itself was read,
/// they
///    meet once more before anybody may write to it.
///
/// Stages are used in turns, so nobody waits for the slowest reader of the one before.
class HostTransport : public Transport {
public:
    /// `rank` and the segment's ranks are those of this host; `names` are what they are called in
    /// the group. Requires: every seat is taken.
    HostTransport(std::shared_ptr<Segment> segment, int rank, std::vector<int> names);
    ~HostTransport() override;

    Outcome run(const Collective& collective, std::chrono::milliseconds timeout) override;
    void abort() override;
    bool is_broken() override { return false; }  // `run` learns of it at once
    bool is_quick(const Collective& collective) const override;
    bool is_for_any_thread() const override { return true; }
    std::vector<int> missing() override;
    std::shared_ptr<Arena> arena() override { return arena_; }

    /// One step of a collective over several hosts: `step` is what this host does, its root counted
    /// in this host; `whole` is what the program called, to compare and to name.
    Outcome run_step(
        const Collective& step, const Collective& whole, std::chrono::milliseconds timeout);
    /// Ends the group for all ranks of this host.
    void fail(const Trouble& trouble) { segment_->fail(rank_, trouble); }

private:
    struct Chunk;
    struct Wait {
        Patience& patience;
        std::chrono::milliseconds timeout;
        std::optional<std::chrono::steady_clock::time_point> deadline{};
    };

    bool perform(const Collective& step, const Collective& whole, Wait& wait);
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
    void lose(const std::vector<int>& ranks);
    void run_out_of_time(const std::vector<int>& ranks, std::chrono::milliseconds after);
    std::vector<int> late_with(const Counter& counter, std::uint32_t target, int rank) const;
    std::vector<int> named(std::vector<int> ranks) const;
    int seat_of(int name) const;

    std::shared_ptr<Segment> segment_;
    int rank_;
    std::vector<int> names_;
    Peers peers_;
    std::shared_ptr<SharedArena> arena_;
    /// Of collectives, sends and receives: each may have a thread of its own.
    std::array<Patience, 3> patience_;
    std::atomic<std::uint32_t> met_count_;
    std::uint64_t call_count_ = 0;
    std::uint64_t turn_ = 0;
};

}  // namespace ddprun::groups
