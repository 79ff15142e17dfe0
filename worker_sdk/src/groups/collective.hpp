// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"
#include "worker_sdk/src/groups/trouble.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddprun::groups {

/// One collective as a value. `data` is the buffer that all_reduce and broadcast work on in place,
/// and the output of all_gather; `input` is all_gather's.
struct Collective {
    enum class Kind : std::uint32_t { all_reduce, broadcast, all_gather, barrier };

    Kind kind = Kind::barrier;
    ElementType type = ElementType::byte;
    Op op = Op::sum;
    int root = 0;
    const void* input = nullptr;
    void* data = nullptr;
    std::size_t count = 0;

    /// Which call on its group this is, from 1.
    std::uint64_t sequence = 0;
};

std::size_t size_of(ElementType type);

/// Everything that must be the same on all ranks, in words: "call 7: all_reduce (sum) of 1000
/// float32". Ranks whose texts differ have a mismatch.
std::string describe(const Collective& collective);

/// 32 bits of the above. Ranks that disagree thereby use different message tags, so their messages
/// never meet: a mismatch costs nothing to detect and never becomes wrong numbers.
std::uint32_t tag_of(const Collective& collective);

/// What is wrong with it on this rank alone: sizes, pointers, root, type.
Outcome check(const Collective& collective, int world_size);

/// Turns the sum over `world_size` ranks into the average.
void divide(void* data, std::size_t count, ElementType type, int world_size);

}  // namespace ddprun::groups
