// SPDX-License-Identifier: Apache-2.0
#include "context.hpp"

#include "unavailable.hpp"

namespace gpu {

void check(CUresult result, const std::string& doing) {
    if (result == CUDA_SUCCESS) return;
    const char* words = nullptr;
    const char* name = nullptr;
    if (cuGetErrorString(result, &words) != CUDA_SUCCESS) words = nullptr;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = nullptr;
    throw Error(
        doing + ": " + (words ? words : "an error of the CUDA driver") + " (" +
        (name ? name : "unknown") + " " + std::to_string(result) + ")");
}

namespace {

void check_there(int ordinal) {
    int count = 0;
    try {
        check(cuInit(0), "starting the CUDA driver");
        check(cuDeviceGetCount(&count), "counting the GPUs");
    } catch (const Error& error) {
        throw Unavailable(error.what());
    }
    if (ordinal < 0 || ordinal >= count)
        throw Unavailable(
            "there is no GPU " + std::to_string(ordinal) + ", this process sees " +
            std::to_string(count) + ": fewer workers, or look at CUDA_VISIBLE_DEVICES");
}

}  // namespace

Context::Context(int ordinal) {
    check_there(ordinal);
    check(cuDeviceGet(&device_, ordinal), "taking the GPU");
    // Never released: other parts of this process may use memory in it until the very end.
    CUcontext context = nullptr;
    check(cuDevicePrimaryCtxRetain(&context, device_), "beginning to use the GPU");
    check(cuCtxPushCurrent(context), "beginning to use the GPU");
}

Context::~Context() {
    CUcontext ignored = nullptr;
    cuCtxPopCurrent(&ignored);
}

std::string Context::name() const {
    char name[256] = {};
    check(cuDeviceGetName(name, sizeof name, device_), "asking the GPU's name");
    return name;
}

Context::MemoryUse Context::memory_use() const {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cuMemGetInfo(&free, &total), "asking how much memory is left");
    return {total - free, total};
}

}  // namespace gpu
