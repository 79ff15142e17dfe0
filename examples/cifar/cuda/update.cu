// SPDX-License-Identifier: Apache-2.0
// The optimizer for all parameters at once: blockIdx.y is the parameter's index.
#include "bf16.cuh"

using namespace cifar;

/// Gradient descent with Nesterov's momentum and weight decay, as PyTorch's SGD does it. Does
/// nothing unless the step is committed: gradients of an aborted reduction are invalid.
extern "C" __global__ void cifar_update(
    const Slot* slots, float rate, float momentum, const unsigned* committed) {
    if (committed && *committed == 0) return;
    const Slot slot = slots[blockIdx.y];
    const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < slot.count;
         i += stride) {
        const float gradient = slot.gradient[i] + slot.decay * slot.value[i];
        const float velocity = momentum * slot.velocity[i] + gradient;
        const float value = slot.value[i] - rate * (gradient + momentum * velocity);
        slot.velocity[i] = velocity;
        slot.value[i] = value;
        if (slot.copy) slot.copy[i] = narrowed(value);
    }
}

/// Called after values were written by other means.
extern "C" __global__ void cifar_refresh_copies(const Slot* slots) {
    const Slot slot = slots[blockIdx.y];
    if (!slot.copy) return;
    const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < slot.count; i += stride)
        slot.copy[i] = narrowed(slot.value[i]);
}

/// Converts a convolution's weight gradient, which cuDNN gives as bfloat16, into the reducer's
/// memory.
extern "C" __global__ void cifar_widen(const Bf16* from, int count, float* to) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) to[i] = widened(from[i]);
}

static_assert(agrees<Update, decltype(cifar_update)>);
static_assert(agrees<RefreshCopies, decltype(cifar_refresh_copies)>);
static_assert(agrees<Widen, decltype(cifar_widen)>);
