// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::groups {

/// Before the bytes of one exchange in one direction: which call of the program they belong to.
struct Header {
    static constexpr std::uint32_t right_sign = 0x6d70672d;

    std::uint32_t sign;
    /// Of the step, where the call has several.
    std::uint32_t tag;
    std::uint64_t bytes;
    std::uint32_t kind;
    std::uint32_t type;
    std::uint32_t op;
    std::int32_t root;
    std::int32_t receiver;
    std::uint32_t unused;
    std::uint64_t count;
    std::uint64_t sequence;
};
// It goes as it is in memory, without gaps.
static_assert(sizeof(Header) == 56);

Header header_of(const Collective& call, std::uint32_t tag, std::uint64_t bytes);
/// As far as it is compared and described; nothing when there is no such call.
std::optional<Collective> call_in(const Header& header);

}  // namespace ddprun::groups
