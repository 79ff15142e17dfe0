// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of a simulated GPU: errors, devices, contexts. Settings:
//
//   FAKE_GPU_COUNT=N          number of devices (8)
//   FAKE_GPU_MEMORY=BYTES     memory of each (8 GiB)
//   FAKE_GPU_KERNELS=PATHS    libraries of kernels, compiled for the CPU, with ':' between them
//   FAKE_GPU_FAILS_IN=NAME:N  the N-th run of that kernel meets an illegal address: from then on
//                             every call returns that error, and no task runs
#include "tests/process/sdk/fake_gpu/engine.hpp"

#include <stdio.h>
#include <stdlib.h>
using namespace fake_gpu;

namespace {

int device_count() {
    const char* count = ::getenv("FAKE_GPU_COUNT");
    return count ? ::atoi(count) : 8;
}

bool is_device(int device) {
    return device >= 0 && device < device_count();
}

struct Words {
    int status;
    const char* name;
    const char* text;
};

constexpr Words all_words[] = {
    {success, "CUDA_SUCCESS", "no error"},
    {invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {illegal_state,
     "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {capture_unsupported,
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {capture_invalidated,
     "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {capture_merge,
     "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {capture_unmatched,
     "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {capture_isolation,
     "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {capture_implicit,
     "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {captured_event,
     "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {capture_wrong_thread,
     "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const Words& words_of(int status) {
    static constexpr Words unknown{-1, "CUDA_ERROR_OF_THE_FAKE", "an error of the fake"};
    for (const auto& words : all_words)
        if (words.status == status) return words;
    return unknown;
}

struct Attribute {
    int number;  ///< of CUdevice_attribute
    int value;
};

/// Roughly those of an H100.
constexpr Attribute attributes[] = {
    {1, 1024},     // MAX_THREADS_PER_BLOCK
    {2, 1024},     // MAX_BLOCK_DIM_X
    {3, 1024},     // MAX_BLOCK_DIM_Y
    {4, 64},       // MAX_BLOCK_DIM_Z
    {8, 49152},    // MAX_SHARED_MEMORY_PER_BLOCK
    {10, 32},      // WARP_SIZE
    {16, 132},     // MULTIPROCESSOR_COUNT
    {19, 1},       // CAN_MAP_HOST_MEMORY
    {39, 2048},    // MAX_THREADS_PER_MULTIPROCESSOR
    {41, 1},       // UNIFIED_ADDRESSING
    {75, 9},       // COMPUTE_CAPABILITY_MAJOR
    {76, 0},       // COMPUTE_CAPABILITY_MINOR
    {97, 232448},  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
};

Context& primary_context(int device) {
    static auto* const all = new std::map<int, Context>;
    auto& context = (*all)[device];
    if (!context.legacy) {
        context.ordinal = device;
        context.legacy = Engine::only().make_stream(context, false);
    }
    return context;
}

}  // namespace

extern "C" int cuInit(unsigned) {
    if (device_count() <= 0) return no_device;
    Engine::only().start();
    return success;
}

extern "C" int cuDriverGetVersion(int* version) {
    *version = 13000;
    return success;
}

extern "C" int cuGetErrorName(int status, const char** name) {
    *name = words_of(status).name;
    return success;
}

extern "C" int cuGetErrorString(int status, const char** text) {
    *text = words_of(status).text;
    return success;
}

extern "C" int cuDeviceGetCount(int* count) {
    *count = device_count();
    return success;
}

extern "C" int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return is_device(ordinal) ? success : invalid_device;
}

extern "C" int cuDeviceGetName(char* name, int size, int device) {
    if (!is_device(device)) return invalid_device;
    ::snprintf(name, static_cast<std::size_t>(size), "Fake GPU");
    return success;
}

extern "C" int cuDeviceGetAttribute(int* value, int attribute, int device) {
    if (!is_device(device)) return invalid_device;
    *value = 0;
    for (const auto& known : attributes)
        if (known.number == attribute) *value = known.value;
    return success;
}

extern "C" int cuDevicePrimaryCtxRetain(void** context, int device) {
    if (!is_device(device)) return invalid_device;
    const auto held = Engine::only().lock();
    *context = &primary_context(device);
    return success;
}

/// The objects in it stay, since they belong to the process.
extern "C" int cuDevicePrimaryCtxRelease_v2(int device) {
    return is_device(device) ? success : invalid_device;
}

extern "C" int cuCtxPushCurrent_v2(void* context) {
    contexts_of_thread().push_back(static_cast<Context*>(context));
    return success;
}

extern "C" int cuCtxPopCurrent_v2(void** context) {
    auto& contexts = contexts_of_thread();
    if (contexts.empty()) return invalid_context;
    if (context) *context = contexts.back();
    contexts.pop_back();
    return success;
}

extern "C" int cuCtxSetCurrent(void* context) {
    auto& contexts = contexts_of_thread();
    if (contexts.empty()) contexts.push_back(nullptr);
    contexts.back() = static_cast<Context*>(context);
    return success;
}

extern "C" int cuCtxGetCurrent(void** context) {
    const auto& contexts = contexts_of_thread();
    *context = contexts.empty() ? nullptr : contexts.back();
    return success;
}

extern "C" int cuCtxGetDevice(int* device) {
    return in_context([&](const Context& context) {
        *device = context.ordinal;
        return success;
    });
}

extern "C" int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return success;
}

extern "C" int cuCtxSynchronize() {
    Context* here = nullptr;
    const int status = in_context([&](Context& context) {
        here = &context;
        return Engine::only().unless_capturing();
    });
    if (status) return status;
    return Engine::only().wait_until([&] { return Engine::only().is_idle(*here); });
}
