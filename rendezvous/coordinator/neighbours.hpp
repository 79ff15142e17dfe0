// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// For each member of a round, by group rank, the group ranks of the members that are asked about
/// it when it is silent: `limits::max_neighbours` at most.
///
/// They are the next ones in the round on other hosts, each on a host of its own as far as there
/// are so many: the loss of a host must not take the witnesses with it. Only where all members are
/// on one host they are on the same.
std::vector<std::vector<std::size_t>> choose_neighbours(const std::vector<std::string>& hosts);

}  // namespace ddprun::coordinator
