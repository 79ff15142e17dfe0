// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architecture.hpp"
#include "gpu/buffer.hpp"
#include "gpu/kernels.hpp"
#include "kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cifar {

/// The memory of parameters for the optimizer and the convolutions: the trained float in the
/// caller's memory, its velocity, and the bfloat16 copy for convolutions.
class Weights {
public:
    Weights(const gpu::Stream& stream, const Architecture& architecture);

    void place(const std::vector<float*>& values, const std::vector<float*>& gradients);

    float* value(std::size_t parameter) const { return slots_[parameter].value; }
    float* gradient(std::size_t parameter) const { return gradients_[parameter]; }
    const Bf16* copy(std::size_t parameter) const { return slots_[parameter].copy; }
    float* velocity(std::size_t parameter) const { return slots_[parameter].velocity; }

    /// Converts a gradient of cuDNN's type into the gradient's memory.
    void widen_gradient(std::size_t parameter, const Bf16* from);
    void update(float rate, const std::uint32_t* committed);
    void refresh();

private:
    gpu::Grid grid() const;

    const gpu::Stream& stream_;
    const Architecture& architecture_;
    gpu::Kernels module_;
    gpu::Kernel<Update> update_;
    gpu::Kernel<RefreshCopies> refresh_;
    gpu::Kernel<Widen> widen_;
    gpu::Buffer<float> velocities_;
    gpu::Buffer<Bf16> copies_;
    gpu::Buffer<Slot> table_;
    std::vector<Slot> slots_;
    std::vector<float*> gradients_;
};

}  // namespace cifar
