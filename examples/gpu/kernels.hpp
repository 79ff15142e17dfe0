// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check.hpp"
#include "stream.hpp"

#include <cstddef>
#include <type_traits>

namespace gpu {

/// The number of blocks, and of threads in each.
struct Grid {
    unsigned blocks = 1;
    unsigned threads = 1;
    /// The numbers of blocks in the second and third dimension.
    unsigned blocks_y = 1;
    unsigned blocks_z = 1;
    /// Bytes of dynamic shared memory for each block.
    unsigned shared_bytes = 0;

    /// Enough blocks for one thread per element of `count`; at least one.
    static Grid for_each(std::size_t count, unsigned threads = 256) {
        const auto blocks = (count + threads - 1) / threads;
        return {static_cast<unsigned>(blocks == 0 ? 1 : blocks), threads};
    }
};

template <class Signature>
class Kernel;

/// A function on the GPU. `Signature` is the kernel's type, from a header that the kernel's file
/// includes too: the driver itself would accept any arguments.
template <class... Parameters>
class Kernel<void(Parameters...)> {
public:
    Kernel() = default;
    explicit Kernel(CUfunction function) : function_(function) {}

    void operator()(
        const Stream& stream,
        const Grid& grid,
        std::type_identity_t<Parameters>... arguments) const {
        void* pointers[] = {&arguments..., nullptr};
        check(
            cuLaunchKernel(
                function_,
                grid.blocks,
                grid.blocks_y,
                grid.blocks_z,
                grid.threads,
                1,
                1,
                grid.shared_bytes,
                stream.get(),
                pointers,
                nullptr),
            "launching a kernel");
    }

    CUfunction get() const { return function_; }

private:
    CUfunction function_ = nullptr;
};

/// The kernels that ddprun_add_kernels has embedded for one .cu file.
class Kernels {
public:
    explicit Kernels(const void* image) {
        CUmodule loaded = nullptr;
        check(cuModuleLoadData(&loaded, image), "loading kernels");
        module_ = decltype(module_){loaded};
    }

    template <class Signature>
    Kernel<Signature> get(const char* name) const {
        CUfunction function = nullptr;
        check(cuModuleGetFunction(&function, module_.get(), name), std::string{"kernel "} + name);
        return Kernel<Signature>{function};
    }

private:
    Owned<CUmodule, cuModuleUnload> module_;
};

}  // namespace gpu
