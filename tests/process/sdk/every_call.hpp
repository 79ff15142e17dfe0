// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace ddprun::tests {

/// Copies buffers into memory from `allocate`, and back.
struct Copies {
    using Copy = std::function<void(void* to, const void* from, std::size_t bytes)>;
    Copy there;
    Copy back;
};
/// For memory that the host can access.
Copies host_copies();

/// Makes every collective with every type and operation and compares the results with
/// `perform_together`, byte for byte. `is_shared`: in memory from `allocate`. Returns the first
/// difference in words; empty when there is none. Prints a line after each kind of collective: on a
/// busy machine all of them take long, and a silent worker counts as hung.
std::string try_every_call(
    const ProcessGroup& group,
    std::size_t count,
    bool is_shared,
    const Copies& copies = host_copies());

/// The n-th of a list of calls of all kinds, in shared memory or not.
std::string try_one_call(const ProcessGroup& group, std::size_t n, std::size_t count);

/// All to all by messages, large ones too.
std::string try_messages(const ProcessGroup& group, std::size_t count);
/// The same in memory from `allocate`.
std::string try_messages_there(const ProcessGroup& group, std::size_t count, const Copies& copies);

}  // namespace ddprun::tests
