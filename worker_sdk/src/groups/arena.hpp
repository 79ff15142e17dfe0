// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace ddprun::groups {

/// Memory that a transport can transfer faster. Any thread.
class Arena {
public:
    virtual ~Arena() = default;

    /// Zeroed, whole pages. Null when the arena is exhausted.
    virtual void* take(std::size_t bytes) = 0;
    /// Whether ordinary memory may be used when the arena is exhausted.
    virtual bool has_substitute() const { return true; }
    virtual void give_back(void* data, std::size_t bytes) = 0;
};

}  // namespace ddprun::groups
