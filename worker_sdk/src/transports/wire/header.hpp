// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::groups {

/// Precedes the bytes of one exchange in one direction, and identifies the program's call that they
/// belong to.
struct Header {
    static constexpr std::uint32_t right_sign = 0x6d70672d;

    std::uint32_t sign;
    /// The tag of the step, when the call has several.
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
// Sent as it is in memory, so it must have no gaps.
static_assert(sizeof(Header) == 56);

Header header_of(const Collective& call, std::uint32_t tag, std::uint64_t bytes);
/// The call, as far as it is compared and described; none when the header describes no valid call.
std::optional<Collective> call_in(const Header& header);

}  // namespace ddprun::groups
