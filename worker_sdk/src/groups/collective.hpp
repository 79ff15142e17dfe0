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

/// How many elements each part has, of all_gather_v and all_to_all_v.
struct PartCounts {
    /// Of the input: one for each rank; of all_gather_v the own one alone.
    std::vector<std::size_t> sent;
    /// Of the output: one for each rank.
    std::vector<std::size_t> received;
};

/// One collective as a value.
///
/// `data` is the buffer that reduce and broadcast work on in place, that recv fills, and the output
/// of the others; `input` is the input of the others, and of send. An all_reduce has an input where
/// it is not in place. `count` is as in the public API: the elements that one rank sends to one
/// other rank.
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
    /// Of send and recv: the sender.
    int root = 0;
    /// Of send and recv.
    int receiver = 0;
    const void* input = nullptr;
    void* data = nullptr;
    /// Of all_gather_v and all_to_all_v: of the largest part, once the ranks have compared.
    std::size_t count = 0;
    /// Of these two. Null: the step in which the ranks compare their counts, an all_gather.
    std::shared_ptr<const PartCounts> counts{};
    /// On GPUs: the CUDA stream whose work precedes this collective.
    void* stream = nullptr;
    /// On GPUs, of all_reduce, broadcast, all_gather and split: buffers are in host memory.
    bool is_on_host = false;

    /// Which collective on its group this is, from 1; of send and recv, which message between these
    /// two in this direction.
    std::uint64_t sequence = 0;
    /// For a step of another call: the tag of that call. 0: its own tag.
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

/// What must be the same on all ranks, in binary.
bool is_same_call(const Collective& a, const Collective& b);

/// 32 bits of the above. Between hosts they are in the header of each step, so that bytes of
/// another call are never taken for those of this one.
std::uint32_t tag_of(const Collective& collective);

/// The error that this rank can detect alone: sizes, pointers, root, peer.
Outcome check(const Collective& collective, int rank, int world_size);

}  // namespace ddprun::groups
