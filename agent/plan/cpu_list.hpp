// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// Numbers of CPUs or of NUMA nodes, ascending, each once.
using CpuList = std::vector<int>;

/// "0-3,8,10-11", as the kernel writes lists under /sys; blanks around it and an empty list are
/// allowed. Nothing when it is anything else, or has a number that no machine has.
std::optional<CpuList> parse_cpu_list(std::string_view text);

std::string describe(const CpuList& list);

bool contains(const CpuList& list, int number);

/// What both have.
CpuList common(const CpuList& left, const CpuList& right);

}  // namespace ddprun::agent
