// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace ddprun::groups {

/// Temporary memory that grows and is kept, so that its pages are touched for the first time only
/// once. One thread at a time.
template <class T>
class Scratch {
public:
    /// Memory of this size with undefined contents; invalidates the memory returned before.
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
