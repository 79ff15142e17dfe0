// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/gpu.hpp"

#include <dlfcn.h>

#include <memory>
#include <stdexcept>

namespace ddprun::tests {

namespace {

void check(int status, const char* call) {
    if (status != 0) throw std::runtime_error(call + (": " + std::to_string(status)));
}

}  // namespace

Gpu::Gpu(int device, Stream stream) : driver_(::dlopen("libcuda.so.1", RTLD_NOW)) {
    if (!driver_) throw std::runtime_error(::dlerror());
    void* context = nullptr;
    check(function<int (*)(unsigned)>("cuInit")(0), "cuInit");
    check(
        function<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device),
        "cuDevicePrimaryCtxRetain");
    check(function<int (*)(void*)>("cuCtxPushCurrent_v2")(context), "cuCtxPushCurrent");
    if (stream == Stream::legacy) return;
    check(
        function<int (*)(void**, unsigned, int)>("cuStreamCreateWithPriority")(&stream_, 1, 0),
        "cuStreamCreateWithPriority");
}

Gpu::~Gpu() {
    for (void* const graph : graphs_)
        function<int (*)(void*)>("cuGraphExecDestroy")(graph);
    if (stream_) function<int (*)(void*)>("cuStreamDestroy_v2")(stream_);
}

void Gpu::run(std::function<void()> kernel, int looks) const {
    const fake_gpu::Work work = [kernel = std::move(kernel), looks]() -> fake_gpu::Task {
        return [kernel, left = std::make_shared<int>(looks)] {
            if (--*left > 0) return false;
            kernel();
            return true;
        };
    };
    enqueue(work);
}

void Gpu::work_for(std::chrono::milliseconds duration) const {
    using Clock = std::chrono::steady_clock;
    enqueue([duration]() -> fake_gpu::Task {
        return [duration, since = std::make_shared<Clock::time_point>()] {
            if (*since == Clock::time_point{}) *since = Clock::now();
            return Clock::now() - *since >= duration;
        };
    });
}

void Gpu::work_until(const std::atomic<bool>& is_done) const {
    enqueue([&is_done]() -> fake_gpu::Task { return [&is_done] { return is_done.load(); }; });
}

void Gpu::enqueue(const fake_gpu::Work& work) const {
    check(function<fake_gpu::Enqueue>(fake_gpu::enqueue_name)(stream_, &work), "enqueue");
}

void* Gpu::capture(const std::function<void()>& enqueue, int mode) const {
    check(
        function<int (*)(void*, int)>("cuStreamBeginCapture_v2")(stream_, mode),
        "cuStreamBeginCapture");
    enqueue();
    void* graph = nullptr;
    void* executable = nullptr;
    check(
        function<int (*)(void*, void**)>("cuStreamEndCapture")(stream_, &graph),
        "cuStreamEndCapture");
    check(
        function<int (*)(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(
            &executable, graph, 0),
        "cuGraphInstantiateWithFlags");
    check(function<int (*)(void*)>("cuGraphDestroy")(graph), "cuGraphDestroy");
    graphs_.push_back(executable);
    return executable;
}

void Gpu::launch(void* graph) const {
    check(function<int (*)(void*, void*)>("cuGraphLaunch")(graph, stream_), "cuGraphLaunch");
}

void Gpu::drain() const {
    function<int (*)(void*)>("cuStreamSynchronize")(stream_);
}

template <class Function>
Function Gpu::function(const char* name) const {
    void* const found = ::dlsym(driver_, name);
    if (!found) throw std::runtime_error(std::string{"the driver lacks "} + name);
    return reinterpret_cast<Function>(found);
}

}  // namespace ddprun::tests
