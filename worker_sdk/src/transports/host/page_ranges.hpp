// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace ddprun::groups {

/// The free parts of a memory range. First fit; a freed part is merged with its neighbours.
class PageRanges {
public:
    explicit PageRanges(std::size_t bytes);

    /// Returns the start of a free range; none when no range is that long.
    std::optional<std::size_t> take(std::size_t bytes);
    void give_back(std::size_t start, std::size_t bytes);

private:
    std::map<std::size_t, std::size_t> free_;  // start, bytes
};

}  // namespace ddprun::groups
