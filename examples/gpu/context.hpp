// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check.hpp"

#include <cstddef>
#include <string>

namespace gpu {

/// The context of a GPU that all libraries of this process share (the CUDA runtime's "primary"
/// one). It is current in the thread that made this object, during the object's life. Objects made
/// in it must be destroyed first.
class Context {
public:
    /// `ordinal` is an index into CUDA_VISIBLE_DEVICES. Throws Unavailable when there is no such
    /// GPU.
    explicit Context(int ordinal);
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context();

    /// "NVIDIA H200"
    std::string name() const;

    /// Bytes of the GPU's memory that all processes use, and the total.
    struct MemoryUse {
        std::size_t used = 0;
        std::size_t total = 0;
    };
    MemoryUse memory_use() const;

private:
    CUdevice device_ = 0;
};

}  // namespace gpu
