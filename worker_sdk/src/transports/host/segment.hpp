// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/host/counter.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <variant>

namespace ddprun::groups {

/// The call that a rank is about to make. The others compare it, and find the rank's memory through
/// it.
struct Posted {
    static constexpr std::uint64_t no_offset = ~std::uint64_t{0};

    std::uint32_t kind;
    std::uint32_t type;
    std::uint32_t op;
    std::int32_t root;
    std::int32_t receiver;
    std::uint64_t count;
    std::uint64_t sequence;
    /// The offset of the rank's input in the segment; no_offset when the input is elsewhere.
    std::uint64_t offset;
};

Posted posted_from(const Collective& collective, std::uint64_t offset);
Collective collective_from(const Posted& posted);

/// Written by one rank and read by all. Initially zero.
struct Seat {
    Counter arrived;
    /// Two calls, used alternately: a late rank may still be reading the previous one.
    std::array<Posted, 2> calls;
    std::atomic<std::int32_t> pid;
    std::atomic<std::uint32_t> has_left;
    /// One bit for each processor that the rank may use.
    std::array<std::uint64_t, 16> processors;
};

/// A queue of two pieces from one rank to another. `written` and `taken` count pieces.
struct Channel {
    static constexpr std::size_t piece_bytes = 32 * 1024;

    Counter written;
    Counter taken;
    std::array<Posted, 2> calls;
    alignas(64) std::array<std::array<std::byte, piece_bytes>, 2> pieces;
};

/// The memory that the ranks of one host share: a seat and two stages for each, a channel for each
/// pair, and the arenas that `ProcessGroup::allocate` takes from. The memory is an anonymous file,
/// freed when the last process that maps it ends, in whatever way. Most pages are never touched and
/// cost nothing.
class Segment {
public:
    /// Bytes that a rank stages for the others, per turn.
    static constexpr std::size_t stage_bytes = 256 * 1024;

    static std::variant<std::shared_ptr<Segment>, GroupError> create(int ranks);
    /// Takes ownership of the descriptor, and closes it even on failure.
    static std::variant<std::shared_ptr<Segment>, GroupError> open(int descriptor, int ranks);

    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;
    ~Segment();

    /// The descriptor to hand over. `close_descriptor` closes it.
    int descriptor() const { return descriptor_; }
    void close_descriptor();

    int ranks() const { return ranks_; }
    Seat& seat(int rank) const;
    std::byte* stage(int rank, std::uint64_t turn) const;
    Channel& channel(int from, int to) const;
    std::byte* arena(int rank) const;
    std::size_t arena_bytes() const { return arena_bytes_; }

    std::byte* at(std::uint64_t offset) const { return base_ + offset; }
    /// Posted::no_offset for memory that is not entirely in the segment.
    std::uint64_t offset_of(const void* data, std::size_t bytes) const;

    /// The first error of any rank ends the group for all; `rank` is this process's own. Threads:
    /// any.
    void fail(int rank, const GroupError& error);
    bool has_failed() const;
    /// Wakes ranks that sleep in a synchronization, so that they check for errors at once. (A rank
    /// that sleeps in a message does so soon.)
    void wake_all();
    /// Requires: has_failed().
    GroupError error() const;

private:
    struct Head;
    struct Note;
    Segment(int descriptor, std::byte* base, std::size_t bytes, int ranks);
    Head& head() const;
    Note& note(int rank) const;

    int descriptor_;
    std::byte* base_;
    std::size_t bytes_;
    int ranks_;
    std::size_t arena_bytes_;
    /// One thread of this process at a time writes this rank's note.
    std::mutex failing_;
};

}  // namespace ddprun::groups
