// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace ddprun::groups {

/// Memory of changing contents that grows and is kept, so that its pages are touched first only
/// once. One thread at a time.
template <class T>
class Scratch {
public:
    /// Of this size, with any contents; the one before is gone.
    T* of(std::size_t count) {
        if (count > count_) {
            memory_.reset();
            memory_.reset(new T[count]);  // not set to zero
            count_ = count;
        }
        return memory_.get();
    }

private:
    std::unique_ptr<T[]> memory_;
    std::size_t count_ = 0;
};

}  // namespace ddprun::groups
