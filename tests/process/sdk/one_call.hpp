// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <string>
#include <vector>

namespace ddprun::tests {

/// Every kind of call by name; "message" passes a message around a ring.
const std::vector<std::string>& call_names();

/// Makes one kind of call, once.
void make_call(const ProcessGroup& group, const std::string& name, std::size_t count);

/// Makes one kind of call, small and large, until a rank dies. `in_flight`: how many calls before
/// the first is waited for.
[[noreturn]] void repeat_call(
    const ProcessGroup& group, const std::string& name, std::size_t in_flight);

}  // namespace ddprun::tests
