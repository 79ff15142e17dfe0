// SPDX-License-Identifier: Apache-2.0
// The SDK's kernels on the device, compared with the same arithmetic on the host.
#include "ddprun/float16.hpp"
#include "tests/gpu/gpu.hpp"
#include "tests/gpu/parts.hpp"
#include "worker_sdk/src/transports/nccl/device_kernels.hpp"

#include <string.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <variant>
#include <vector>

namespace gpu_check {

using ddprun::BFloat16;
using ddprun::ElementType;
using ddprun::Float16;
using ddprun::World;
using ddprun::nccl::Device;
using ddprun::nccl::DeviceKernels;
using ddprun::nccl::DriverFunctions;
using Pointer = DeviceKernels::Pointer;

namespace {

template <class Value>
Value value_of(std::variant<Value, ddprun::groups::GroupError> result) {
    if (const auto* error = std::get_if<ddprun::groups::GroupError>(&result))
        throw std::runtime_error(error->text);
    return std::get<Value>(std::move(result));
}

/// Numbers of all magnitudes, and all special values.
std::vector<float> numbers(std::size_t count) {
    std::mt19937 random(1);
    std::vector<float> values(count);
    for (auto& value : values)
        value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    using Limits = std::numeric_limits<float>;
    const float special[] = {
        0.0F,
        -0.0F,
        1.0F,
        65504.0F,
        65520.0F,
        Limits::max(),
        Limits::min(),
        Limits::denorm_min(),
        Limits::infinity(),
        -Limits::infinity(),
        Limits::quiet_NaN()};
    std::copy(std::begin(special), std::end(special), values.begin());
    return values;
}

bool is_same(float a, float b) {
    return std::isnan(a) ? std::isnan(b)
                         : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

class Kernels {
public:
    explicit Kernels(int ordinal)
        : gpu_(ordinal),
          stream_(gpu_.new_stream()),
          driver_(value_of(DriverFunctions::open())),
          device_(value_of(Device::open(driver_, ordinal))),
          kernels_(value_of(DeviceKernels::load(device_))) {}

    /// To 16 bits and back.
    template <class Half>
    void check_compression(ElementType type, const std::vector<float>& values) {
        const auto bytes = values.size() * sizeof(float);
        void* const wide = gpu_.allocate(bytes);
        void* const half = gpu_.allocate(values.size() * sizeof(Half));
        constexpr float factor = 0.25F;
        gpu_.upload(wide, values.data(), bytes);
        done(kernels_.compress(type, at(half), at(wide), values.size(), factor, stream_));
        done(kernels_.expand(type, at(wide), at(half), values.size(), stream_));
        std::vector<float> result(values.size());
        gpu_.download(result.data(), wide, bytes);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto expected = static_cast<float>(Half(values[i] * factor));
            expect(
                is_same(expected, result[i]),
                "compression of " + std::to_string(values[i]) + " gives " +
                    std::to_string(result[i]) + ", on the host " + std::to_string(expected));
        }
    }

    void check_clip(std::size_t count, float max_norm) {
        std::vector<float> values(count);
        double squares = 0;
        for (std::size_t i = 0; i < count; ++i) {
            values[i] = static_cast<float>(static_cast<double>(i % 1000) / 500 - 1);
            squares += static_cast<double>(values[i]) * values[i];
        }
        const auto expected = static_cast<float>(std::sqrt(squares));
        void* const data = gpu_.allocate(count * sizeof(float));
        void* const sums = gpu_.allocate(DeviceKernels::sums_bytes());
        void* const norm = gpu_.allocate(sizeof(float));
        gpu_.upload(data, values.data(), count * sizeof(float));
        done(kernels_.clip(at(data), count, max_norm, at(sums), at(norm), stream_));
        float got = 0;
        std::vector<float> result(count);
        gpu_.download(&got, norm, sizeof got);
        gpu_.download(result.data(), data, count * sizeof(float));
        expect(
            std::abs(got - expected) <= 1e-6F * expected,
            "the norm of " + std::to_string(count) + " is " + std::to_string(got) + ", not " +
                std::to_string(expected));
        const float factor = expected <= max_norm ? 1 : max_norm / (expected + 1e-6F);
        for (std::size_t i = 0; i < count; ++i)
            expect(
                std::abs(result[i] - values[i] * factor) <= 1e-6F * std::abs(values[i]),
                "element " + std::to_string(i) + " of " + std::to_string(count) + " clipped");
    }

private:
    static Pointer at(void* data) { return reinterpret_cast<Pointer>(data); }

    void done(DeviceKernels::Status status) const {
        expect(status == 0, "a kernel: " + driver_.describe(status));
        gpu_.synchronize(stream_);
    }

    const Gpu gpu_;
    const Gpu::Stream stream_;
    const DriverFunctions driver_;
    const Device device_;
    const DeviceKernels kernels_;
};

}  // namespace

void kernels(const World& world, std::size_t count) {
    Kernels all(device_of(world));
    const auto values = numbers(count);
    all.check_compression<BFloat16>(ElementType::bfloat16, values);
    all.check_compression<Float16>(ElementType::float16, values);
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, count})
        for (const float max_norm : {0.5F, 1e9F})
            all.check_clip(size, max_norm);
    say("elements " + std::to_string(count));
}

}  // namespace gpu_check
