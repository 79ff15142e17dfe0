// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"
#include "worker_sdk/src/groups/elementwise.hpp"
#include "worker_sdk/src/groups/group_error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::groups {

/// The number of elements of each part of an all_gather_v or all_to_all_v.
struct PartCounts {
    /// Parts of the input, one for each rank; for all_gather_v only this rank's own.
    std::vector<std::size_t> sent;
    /// Parts of the output, one for each rank.
    std::vector<std::size_t> received;
};

/// One collective as a value.
///
/// `data` is the buffer on which reduce and broadcast work in place, which recv fills, and which is
/// the output of the other collectives. `input` is the input of those others and of send. An
/// all_reduce has an input unless it is in place. `count` is as in the public API: the number of
/// elements that one rank sends to one other rank.
struct Collective {
    enum class Kind : std::uint32_t {
        all_reduce,
        reduce,
        broadcast,
        all_gather,
        reduce_scatter,
        gather,
        scatter,
        all_to_all,
        all_gather_v,
        all_to_all_v,
        barrier,
        split,  ///< an all_gather of the ranks' colors and keys
        send,
        recv,
    };

    Kind kind = Kind::barrier;
    ElementType type = ElementType::uint8;
    Op op = Op::sum;
    /// The root; for a message (send and recv), the sender.
    int root = 0;
    /// The receiver of a message (send and recv).
    int receiver = 0;
    const void* input = nullptr;
    void* data = nullptr;
    /// The element count; for all_gather_v and all_to_all_v that of the largest part, once the
    /// ranks have compared their counts.
    std::size_t count = 0;
    /// The counts of an all_gather_v or all_to_all_v. Null in the first step, an all_gather in
    /// which the ranks compare their counts.
    std::shared_ptr<const PartCounts> counts{};
    /// On GPUs: the CUDA stream whose work precedes this collective.
    void* stream = nullptr;
    /// On GPUs, for all_reduce, broadcast, all_gather and split: buffers are in host memory.
    bool is_on_host = false;

    /// The number of this collective in its group, from 1. For send and recv: the number of the
    /// message between these two ranks in this direction.
    std::uint64_t sequence = 0;
    /// The tag of the program's call, in a step of it. Else 0, and the collective has its own tag.
    std::uint32_t tag = 0;

    bool has_part_counts() const {
        return kind == Kind::all_gather_v || kind == Kind::all_to_all_v;
    }
    bool is_point_to_point() const { return kind == Kind::send || kind == Kind::recv; }
    /// Whether elements are combined.
    bool is_reduction() const {
        return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
    }
    std::size_t bytes() const { return count * size_of(type); }
};

/// Everything that must be the same on all ranks, as text: "call 7: all_reduce (sum) of 1000
/// float32", "message 3 from rank 0 to rank 1: 10 int32". Ranks whose texts differ have a mismatch.
std::string describe(const Collective& collective);

/// Compares all that must be the same on all ranks.
bool is_same_call(const Collective& a, const Collective& b);

/// A 32-bit hash of all that must be the same on all ranks. Between hosts each step's header has
/// it, so that bytes of another call are never mistaken for this one's.
std::uint32_t tag_of(const Collective& collective);

/// Checks what one rank can check alone: sizes, pointers, root, peer.
Outcome check(const Collective& collective, int rank, int world_size);

}  // namespace ddprun::groups
