// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/device_kernels.hpp"

#include "worker_sdk/src/transports/nccl/kernel_images.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace ddprun::nccl {

namespace {

using groups::GroupError;
using Status = DriverFunctions::Status;
using Count = unsigned long long;

struct Wanted {
    DriverFunctions::Function* function;
    const char* name;
};

Status load_module(
    const DriverFunctions& driver, const void* image, std::initializer_list<Wanted> wanted) {
    DriverFunctions::Module module = nullptr;
    if (const auto status = driver.module_load(&module, image)) return status;
    for (const auto& [function, name] : wanted)
        if (const auto status = driver.module_function(function, module, name)) return status;
    return 0;
}

}  // namespace

/// Loads the kernels once per device; they stay loaded until the process ends, like their context.
std::variant<DeviceKernels, GroupError> DeviceKernels::load(const Device& device) {
    static auto* const mutex = new std::mutex;
    static auto* const loaded = new std::map<int, DeviceKernels>;
    const std::lock_guard lock(*mutex);
    if (const auto known = loaded->find(device.ordinal()); known != loaded->end())
        return known->second;
    auto kernels = load_new(device);
    if (const auto* usable = std::get_if<DeviceKernels>(&kernels))
        loaded->emplace(device.ordinal(), *usable);
    return kernels;
}

std::variant<DeviceKernels, GroupError> DeviceKernels::load_new(const Device& device) {
    const auto images = kernel_images();
    if (!images)
        return GroupError{
            GroupError::Kind::usage,
            "a Reducer on GPUs needs kernels, and this ddprun was built without nvcc: build "
            "ddprun where CUDA's compiler is"};
    const auto& driver = device.driver();
    DeviceKernels kernels;
    kernels.driver_ = &driver;
    auto status = load_module(
        driver,
        images->compression,
        {{&kernels.to_bfloat16_, "ddprun_to_bfloat16"},
         {&kernels.to_float16_, "ddprun_to_float16"},
         {&kernels.from_bfloat16_, "ddprun_from_bfloat16"},
         {&kernels.from_float16_, "ddprun_from_float16"}});
    if (status == 0)
        status = load_module(
            driver,
            images->steps,
            {{&kernels.latch_, "ddprun_latch"},
             {&kernels.count_step_, "ddprun_count_step"},
             {&kernels.sum_squares_, "ddprun_sum_squares"},
             {&kernels.norm_of_sums_, "ddprun_norm_of_sums"},
             {&kernels.clip_, "ddprun_clip"}});
    if (status == 0) return kernels;
    return GroupError{
        GroupError::Kind::other,
        "the kernels of the SDK cannot be loaded on cuda:" + std::to_string(device.ordinal()) +
            ": " + driver.describe(status)};
}

Status DeviceKernels::compress(
    ElementType type, Pointer to, Pointer from, std::size_t count, float factor, Stream stream)
    const {
    const auto function = type == ElementType::bfloat16 ? to_bfloat16_ : to_float16_;
    return launch(function, blocks_for(count), stream, to, from, Count{count}, factor);
}

Status DeviceKernels::expand(
    ElementType type, Pointer to, Pointer from, std::size_t count, Stream stream) const {
    const auto function = type == ElementType::bfloat16 ? from_bfloat16_ : from_float16_;
    return launch(function, blocks_for(count), stream, to, from, Count{count});
}

Status DeviceKernels::latch(Pointer commit, Pointer valid_flag, Stream stream) const {
    return launch_one(latch_, stream, commit, valid_flag);
}

Status DeviceKernels::count_step(
    Pointer commit, Pointer count, Pointer steps, Stream stream) const {
    return launch_one(count_step_, stream, commit, count, steps);
}

Status DeviceKernels::clip(
    Pointer values, std::size_t count, float max_norm, Pointer sums, Pointer norm, Stream stream)
    const {
    const auto blocks = blocks_for(count);
    if (const auto status = launch(sum_squares_, blocks, stream, values, Count{count}, sums))
        return status;
    if (const auto status = launch(norm_of_sums_, 1, stream, sums, blocks, norm)) return status;
    return launch(clip_, blocks, stream, values, Count{count}, norm, max_norm);
}

/// Few enough blocks that each thread has work, and at most as many as fill a GPU.
unsigned DeviceKernels::blocks_for(std::size_t count) {
    constexpr std::size_t elements_of_block = std::size_t{threads} * 4;
    const auto blocks = (count + elements_of_block - 1) / elements_of_block;
    return static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, most_blocks));
}

template <class... Arguments>
Status DeviceKernels::launch(
    Function function, unsigned blocks, Stream stream, Arguments... arguments) const {
    void* pointers[]{&arguments...};
    return launch(function, blocks, threads, stream, pointers);
}

template <class... Arguments>
Status DeviceKernels::launch_one(Function function, Stream stream, Arguments... arguments) const {
    void* pointers[]{&arguments...};
    return launch(function, 1, 1, stream, pointers);
}

Status DeviceKernels::launch(
    Function function,
    unsigned blocks,
    unsigned threads_of_block,
    Stream stream,
    void** arguments) const {
    return driver_->launch_kernel(
        function, blocks, 1, 1, threads_of_block, 1, 1, 0, stream, arguments, nullptr);
}

}  // namespace ddprun::nccl
