// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/page_ranges.hpp"

#include <algorithm>
#include <iterator>

namespace ddprun::groups {

PageRanges::PageRanges(std::size_t bytes) {
    if (bytes > 0) free_[0] = bytes;
}

std::optional<std::size_t> PageRanges::take(std::size_t bytes) {
    const auto found = std::find_if(
        free_.begin(), free_.end(), [bytes](const auto& range) { return range.second >= bytes; });
    if (found == free_.end()) return {};
    const auto [start, size] = *found;
    free_.erase(found);
    if (size > bytes) free_[start + bytes] = size - bytes;
    return start;
}

void PageRanges::give_back(std::size_t start, std::size_t bytes) {
    auto here = free_.emplace(start, bytes).first;
    const auto after = std::next(here);
    if (after != free_.end() && start + bytes == after->first) {
        here->second += after->second;
        free_.erase(after);
    }
    if (here == free_.begin()) return;
    const auto before = std::prev(here);
    if (before->first + before->second != start) return;
    before->second += here->second;
    free_.erase(here);
}

}  // namespace ddprun::groups
