// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gpu.hpp"

#include <dlfcn.h>

#include <cstdio>

namespace gpu_check {

namespace {

using DevicePointer = unsigned long long;

void* driver() {
    static void* const handle = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle) throw std::runtime_error(std::string{"no CUDA driver: "} + ::dlerror());
    return handle;
}

/// Calls a function of the driver's by its name.
template <class... Parameters, class... Arguments>
void call(const char* name, int (*)(Parameters...), Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Parameters...)>(::dlsym(driver(), name));
    if (!function) throw std::runtime_error(std::string{"this CUDA driver lacks "} + name);
    if (const int status = function(arguments...))
        throw std::runtime_error(
            std::string{name} + " failed: CUDA error " + std::to_string(status));
}

template <class... Parameters>
constexpr int (*takes())(Parameters...) {
    return nullptr;
}

DevicePointer address(const void* data) {
    return reinterpret_cast<DevicePointer>(data);
}

}  // namespace

int Gpu::count() {
    int count = 0;
    call("cuInit", takes<unsigned>(), 0U);
    call("cuDeviceGetCount", takes<int*>(), &count);
    return count;
}

Gpu::Gpu(int ordinal) {
    int device = 0;
    call("cuInit", takes<unsigned>(), 0U);
    call("cuDeviceGet", takes<int*, int>(), &device, ordinal);
    call("cuDevicePrimaryCtxRetain", takes<void**, int>(), &context_, device);
    enter();
}

void Gpu::enter() const {
    call("cuCtxPushCurrent_v2", takes<void*>(), context_);
}

void Gpu::upload(void* to, const void* from, std::size_t bytes) const {
    call(
        "cuMemcpyHtoD_v2",
        takes<DevicePointer, const void*, std::size_t>(),
        address(to),
        from,
        bytes);
    // It returns when `from` may be reused, but work in other streams must find the data there.
    synchronize(nullptr);
}

void Gpu::download(void* to, const void* from, std::size_t bytes) const {
    call("cuMemcpyDtoH_v2", takes<void*, DevicePointer, std::size_t>(), to, address(from), bytes);
}

void Gpu::synchronize(Stream stream) const {
    call("cuStreamSynchronize", takes<void*>(), stream);
}

Gpu::Stream Gpu::new_stream() const {
    constexpr unsigned non_blocking = 1;
    Stream stream = nullptr;
    call("cuStreamCreateWithPriority", takes<void**, unsigned, int>(), &stream, non_blocking, 0);
    return stream;
}

std::size_t Gpu::used_bytes() const {
    std::size_t free = 0;
    std::size_t total = 0;
    call("cuMemGetInfo_v2", takes<std::size_t*, std::size_t*>(), &free, &total);
    return total - free;
}

void* Gpu::allocate(std::size_t bytes) const {
    DevicePointer data = 0;
    call("cuMemAlloc_v2", takes<DevicePointer*, std::size_t>(), &data, bytes);
    return reinterpret_cast<void*>(data);
}

void Gpu::fill(void* data, unsigned char byte, std::size_t bytes, Stream stream) const {
    call(
        "cuMemsetD8Async",
        takes<DevicePointer, unsigned char, std::size_t, void*>(),
        address(data),
        byte,
        bytes,
        stream);
}

void Gpu::begin_capture(Stream stream) const {
    constexpr int relaxed = 2;
    call("cuStreamBeginCapture_v2", takes<void*, int>(), stream, relaxed);
}

Gpu::Graph Gpu::end_capture(Stream stream) const {
    void* graph = nullptr;
    void* executable = nullptr;
    call("cuStreamEndCapture", takes<void*, void**>(), stream, &graph);
    call(
        "cuGraphInstantiateWithFlags",
        takes<void**, void*, unsigned long long>(),
        &executable,
        graph,
        0ULL);
    call("cuGraphDestroy", takes<void*>(), graph);
    return executable;
}

void Gpu::launch(Graph graph, Stream stream) const {
    call("cuGraphLaunch", takes<void*, void*>(), graph, stream);
}

void Gpu::destroy(Graph graph) const {
    call("cuGraphExecDestroy", takes<void*>(), graph);
}

int device_of(const ddprun::World& world) {
    return world.local_rank % Gpu::count();
}

void say(const std::string& line) {
    const auto whole = line + "\n";
    std::fwrite(whole.data(), 1, whole.size(), stdout);
    std::fflush(stdout);
}

void expect(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

}  // namespace gpu_check
