// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

namespace ddprun::test {

/// While it lives, this thread may make `allowed` more allocations (`operator new`); later ones
/// throw bad_alloc, until the thread frees a block of at least `reserve_bytes`.
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
