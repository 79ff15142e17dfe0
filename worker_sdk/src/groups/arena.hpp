// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace ddprun::groups {

/// Memory that a transport can do better with. Any thread.
class Arena {
public:
    virtual ~Arena() = default;

    /// Zeroed, whole pages. Null when there is no more of this kind.
    virtual void* take(std::size_t bytes) = 0;
    /// Whether ordinary memory does as well, where there is no more.
    virtual bool has_substitute() const { return true; }
    virtual void give_back(void* data, std::size_t bytes) = 0;
};

}  // namespace ddprun::groups
