// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"

#include <cstdint>
#include <vector>

namespace ddprun::groups {

/// The numbers that the ranks exchange before an all_gather_v or all_to_all_v on the cpu: element
/// type and counts. All ranks compare the same numbers, so they find the same mismatch.
std::vector<std::int64_t> counts_to_compare(const Collective& collective, int world_size);

/// Finds the first two ranks whose numbers do not match. `all` has the numbers of all ranks, in
/// order.
Outcome mismatch_of_counts(
    const Collective& collective, const std::vector<std::int64_t>& all, int world_size);

/// The largest count of any part. Requires: no mismatch.
std::size_t largest_part(const std::vector<std::int64_t>& all, int world_size);

/// Where each part begins, in elements.
std::vector<std::size_t> part_starts(const std::vector<std::size_t>& counts);

}  // namespace ddprun::groups
