// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// For each member of a round, by group rank, the group ranks of the members that are asked about
/// it when it is silent: `limits::max_neighbours` at most.
///
/// They are the next members of the round on other hosts, each on a different host if possible: the
/// loss of a host must not take the witnesses with it. They are on the member's own host only when
/// the round has no other.
std::vector<std::vector<std::size_t>> choose_neighbours(const std::vector<std::string>& hosts);

}  // namespace ddprun::coordinator
