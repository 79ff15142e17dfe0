// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check.hpp"

#include <cstddef>
#include <string>

namespace gpu {

/// A GPU in use: the context that all libraries of this process share (the CUDA runtime's
/// "primary" one), current in the thread that made this and while this lives. What is made in it
/// ends before it does.
class Context {
public:
    /// `ordinal` counts what CUDA_VISIBLE_DEVICES shows. Throws Unavailable when there is none.
    explicit Context(int ordinal);
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context();

    /// "NVIDIA H200"
    std::string name() const;

    /// Bytes of its memory that all processes use, and that it has.
    struct MemoryUse {
        std::size_t used = 0;
        std::size_t total = 0;
    };
    MemoryUse memory_use() const;

private:
    CUdevice device_ = 0;
};

}  // namespace gpu
