// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

namespace ddprun::test {

/// While it lives, this thread gets memory for so many allocations more (`operator new`), and a
/// bad_alloc for those that follow, until it frees a block of at least `reserve_bytes`.
class FailingAllocation {
public:
    explicit FailingAllocation(
        std::size_t allowed, std::size_t reserve_bytes = std::numeric_limits<std::size_t>::max());
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;

    bool has_failed() const;
};

}  // namespace ddprun::test
