// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddprun::wire {

/// The opcodes of the c10d store protocol with the numbers of PyTorch 2.2 and newer: the first byte
/// of a request. Layouts and semantics are in FORMAT.md, one row each.
enum class Query : std::uint8_t {
    validate = 0,
    set = 1,
    compare_set = 2,
    get = 3,
    add = 4,
    check = 5,
    wait = 6,
    num_keys = 7,
    delete_key = 8,
    append = 9,
    multi_get = 10,
    multi_set = 11,
    cancel_wait = 12,
    ping = 13,
    queue_push = 14,
    queue_pop = 15,
    queue_len = 16,
    list_keys = 17,
    barrier = 18,
};

inline constexpr std::size_t query_count = 19;

/// The number of requests in PyTorch 2.1: SET to CANCEL_WAIT, with each opcode one lower; it has no
/// VALIDATE.
inline constexpr std::size_t legacy_query_count = 12;

/// The name in PyTorch's spelling: "COMPARE_SET".
std::string_view name(Query query);

/// The number that a client sends with VALIDATE. A big-endian host sends its bytes in the other
/// order.
inline constexpr std::uint32_t validate_magic = 0x3C85F7CE;

/// Which clients a server accepts.
enum class Accepted : std::uint8_t {
    current,     ///< PyTorch 2.2 and newer: the first request is VALIDATE
    legacy_too,  ///< also PyTorch 2.1, detected by its first request (FORMAT.md)
};

}  // namespace ddprun::wire
