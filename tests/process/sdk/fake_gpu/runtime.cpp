// SPDX-License-Identifier: Apache-2.0
// libcudart of a simulated GPU, over its driver: the calls of the examples that link CUDA's
// runtime. As in the real one a thread uses the first device until it chooses another.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace {

using DevicePointer = unsigned long long;

constexpr int no_driver = 35;  // cudaErrorInsufficientDriver

void* driver() {
    static void* const handle = ::dlopen("libcuda.so.1", RTLD_NOW);
    return handle;
}

template <class... Parameters>
int call(const char* name, Parameters... parameters) {
    if (!driver()) return no_driver;
    return reinterpret_cast<int (*)(Parameters...)>(::dlsym(driver(), name))(parameters...);
}

thread_local int chosen = -1;

int enter(int device) {
    if (chosen == device) return 0;
    void* context = nullptr;
    int status = call("cuInit", 0U);
    if (status == 0) status = call("cuDevicePrimaryCtxRetain", &context, device);
    if (status == 0) status = call("cuCtxSetCurrent", context);
    if (status == 0) chosen = device;
    return status;
}

int enter() {
    return chosen < 0 ? enter(0) : 0;
}

}  // namespace

extern "C" int cudaGetDeviceCount(int* count) {
    const int status = call("cuInit", 0U);
    return status ? status : call("cuDeviceGetCount", count);
}

extern "C" int cudaSetDevice(int device) {
    return enter(device);
}

extern "C" int cudaGetLastError() {
    return 0;
}

extern "C" const char* cudaGetErrorString(int status) {
    const char* text = nullptr;
    if (status == no_driver) return "CUDA driver version is insufficient for CUDA runtime version";
    return call("cuGetErrorString", status, &text) == 0 && text ? text : "an error of the fake";
}

extern "C" int cudaMalloc(void** data, std::size_t bytes) {
    DevicePointer pointer = 0;
    if (const int status = enter()) return status;
    const int status = call("cuMemAlloc_v2", &pointer, bytes);
    *data = reinterpret_cast<void*>(pointer);
    return status;
}

extern "C" int cudaMemcpy(void* to, const void* from, std::size_t bytes, int) {
    if (const int status = enter()) return status;
    // Device memory is the process's memory, so all directions are the same.
    if (const int status = call("cuCtxSynchronize")) return status;
    for (std::size_t i = 0; i < bytes; ++i)
        static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
    return 0;
}

extern "C" int cudaStreamCreate(void** stream) {
    const int status = enter();
    return status ? status : call("cuStreamCreate", stream, 0U);
}

extern "C" int cudaStreamQuery(void* stream) {
    return call("cuStreamQuery", stream);
}
