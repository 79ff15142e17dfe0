// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"

#include <cstddef>
#include <utility>

namespace ddprun {

/// Memory for collectives, from `ProcessGroup::allocate`: zeroed, aligned to a page, and of the
/// kind that is fastest for the backend (on cpu: shared with the ranks of this host, which saves
/// two copies; on nccl: GPU memory). May outlive its group.
class Memory {
public:
    Memory() = default;
    Memory(Memory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    Memory& operator=(Memory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Memory() {
        if (data_) ddprun_deallocate(data_);
    }

    /// Null when the size is 0.
    void* data() const { return data_; }
    /// In bytes.
    std::size_t size() const { return size_; }

private:
    friend class ProcessGroup;
    Memory(void* data, std::size_t size) : data_(data), size_(size) {}

    void* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace ddprun
