// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>
#include <string>

namespace ddprun::tests {

/// Makes every collective with every type and operation and compares with what `perform_together`
/// says, byte for byte. `is_shared`: in memory from `allocate`. The first difference in words;
/// empty when there is none. Prints a line after each kind of collective: on a busy machine all of
/// them take long, and a silent worker counts as hung.
std::string try_every_call(const ProcessGroup& group, std::size_t count, bool is_shared);

/// The n-th of a list of calls of all kinds, in shared memory or not.
std::string try_one_call(const ProcessGroup& group, std::size_t n, std::size_t count);

/// All to all by messages, large ones too.
std::string try_messages(const ProcessGroup& group, std::size_t count);

}  // namespace ddprun::tests
