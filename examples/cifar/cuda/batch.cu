// SPDX-License-Identifier: Apache-2.0
// Makes the input of the first convolution from bytes: a shuffled batch, cropped, flipped and cut
// out.
#include "bf16.cuh"

using namespace cifar;

namespace {

constexpr int side = 32;
constexpr int pixels = side * side;
constexpr int reach = 4;  // pixels by which a crop is moved at most

// Normalizes by the usual mean and deviation of CIFAR-10's pixels.
__device__ inline float normalised(unsigned char byte, int channel) {
    const float mean = channel == 0 ? 0.4914F : channel == 1 ? 0.4822F : 0.4465F;
    const float deviation = channel == 0 ? 0.2470F : channel == 1 ? 0.2435F : 0.2616F;
    return (static_cast<float>(byte) / 255.0F - mean) / deviation;
}

/// SplitMix64's finisher, as in the CPU's random.hpp.
__device__ inline unsigned long long mixed(unsigned long long value) {
    value += 0x9E3779B97F4A7C15ULL;
    value = (value ^ value >> 30U) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ value >> 27U) * 0x94D049BB133111EBULL;
    return value ^ value >> 31U;
}

/// Mirrors an index at the picture's edges: the result is as far inside the edge as the index is
/// beyond it.
__device__ inline int reflected(int at) {
    if (at < 0) return -at;
    return at < side ? at : 2 * (side - 1) - at;
}

}  // namespace

extern "C" __global__ void cifar_load_batch(
    const unsigned char* images,
    const unsigned char* labels,
    const unsigned* order,
    Augmentation augmentation,
    int count,
    Eight* out,
    unsigned char* out_labels) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count * pixels) return;
    const int picture = i / pixels;
    const int row = i % pixels / side;
    const int column = i % side;
    const unsigned index = order[picture];
    if (i % pixels == 0) out_labels[picture] = labels[index];

    int from_row = row;
    int from_column = column;
    bool is_cut = false;
    if (augmentation.is_on) {
        const unsigned long long bits =
            mixed(mixed(mixed(augmentation.seed) ^ augmentation.epoch) ^ index);
        const auto part = [&](unsigned shift, unsigned choices) {
            return static_cast<int>((bits >> shift & 0xFFFFU) % choices);
        };
        if (bits >> 63U != 0) from_column = side - 1 - column;
        from_row = reflected(from_row + part(0, 2 * reach + 1) - reach);
        from_column = reflected(from_column + part(16, 2 * reach + 1) - reach);
        const int cut = augmentation.cut;
        // A square somewhere inside the picture.
        const int places = side - cut + 1;
        const int top = part(32, static_cast<unsigned>(places));
        const int left = static_cast<int>((bits >> 48U & 0x7FFFU) % static_cast<unsigned>(places));
        is_cut = row >= top && row < top + cut && column >= left && column < left + cut;
    }

    const unsigned char* image = images + static_cast<size_t>(index) * 3 * pixels;
    Eight result{};
    for (int channel = 0; channel < 3 && !is_cut; ++channel)
        result.value[channel] =
            narrowed(normalised(image[channel * pixels + from_row * side + from_column], channel));
    out[i] = result;
}

static_assert(agrees<LoadBatch, decltype(cifar_load_batch)>);
