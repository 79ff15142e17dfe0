// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"
#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"

#include <cstddef>
#include <variant>

namespace ddprun::nccl {

/// The kernels of the SDK (kernels/), loaded on one device. Each call only enqueues. Requires: an
/// OnDevice.
class DeviceKernels {
public:
    using Pointer = DriverFunctions::DevicePointer;
    using Stream = DriverFunctions::Stream;
    using Status = DriverFunctions::Status;

    /// GroupError where the SDK was built without nvcc, or for other GPUs.
    static std::variant<DeviceKernels, groups::GroupError> load(const Device& device);

    /// Converts floats to 16 bits (float16 or bfloat16), each multiplied by `factor` first; and
    /// back.
    Status compress(
        ElementType type, Pointer to, Pointer from, std::size_t count, float factor, Stream stream)
        const;
    Status expand(
        ElementType type, Pointer to, Pointer from, std::size_t count, Stream stream) const;

    /// Copies `valid_flag`, in host memory, to `commit`. Both words have 32 bits.
    Status latch(Pointer commit, Pointer valid_flag, Stream stream) const;
    /// Increments the 64-bit `count` unless `commit` is 0, and copies it to `steps`, in host
    /// memory.
    Status count_step(Pointer commit, Pointer count, Pointer steps, Stream stream) const;

    /// Computes the L2 norm of the values into `norm`, a float, and scales the values so that their
    /// norm is at most `max_norm`. `sums` is a buffer of `sums_bytes`. Equal values give equal
    /// bits.
    static constexpr std::size_t sums_bytes() { return most_blocks * sizeof(double); }
    Status clip(
        Pointer values,
        std::size_t count,
        float max_norm,
        Pointer sums,
        Pointer norm,
        Stream stream) const;

private:
    using Function = DriverFunctions::Function;

    static constexpr unsigned most_blocks = 1024;
    static constexpr unsigned threads = 256;

    static std::variant<DeviceKernels, groups::GroupError> load_new(const Device& device);
    /// How many blocks a loop over `count` elements gets.
    static unsigned blocks_for(std::size_t count);
    template <class... Arguments>
    Status launch(Function function, unsigned blocks, Stream stream, Arguments... arguments) const;
    template <class... Arguments>
    Status launch_one(Function function, Stream stream, Arguments... arguments) const;
    Status launch(
        Function function,
        unsigned blocks,
        unsigned threads_of_block,
        Stream stream,
        void** arguments) const;

    const DriverFunctions* driver_ = nullptr;
    Function to_bfloat16_ = nullptr;
    Function to_float16_ = nullptr;
    Function from_bfloat16_ = nullptr;
    Function from_float16_ = nullptr;
    Function latch_ = nullptr;
    Function count_step_ = nullptr;
    Function sum_squares_ = nullptr;
    Function norm_of_sums_ = nullptr;
    Function clip_ = nullptr;
};

}  // namespace ddprun::nccl
