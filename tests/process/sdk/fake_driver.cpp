// SPDX-License-Identifier: Apache-2.0
// The driver of the simulated GPU (fake_gpu/), called through <cuda.h>: the behaviour that other
// tests rely on.
#include <cuda.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>
#include <vector>

extern "C" const unsigned char shapes_fatbin[];

namespace {

/// A current context on the first device; other calls must succeed.
class Gpu {
public:
    Gpu() {
        CUcontext context = nullptr;
        REQUIRE(cuInit(0) == CUDA_SUCCESS);
        REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
        REQUIRE(cuCtxPushCurrent(context) == CUDA_SUCCESS);
        REQUIRE(cuModuleLoadData(&module_, shapes_fatbin) == CUDA_SUCCESS);
    }
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;
    ~Gpu() {
        cuModuleUnload(module_);
        cuCtxPopCurrent(nullptr);
    }

    CUfunction kernel(const char* name) const {
        CUfunction function = nullptr;
        REQUIRE(cuModuleGetFunction(&function, module_, name) == CUDA_SUCCESS);
        return function;
    }
    CUmodule module() const { return module_; }

private:
    CUmodule module_ = nullptr;
};

class Stream {
public:
    Stream() { REQUIRE(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() { cuStreamDestroy(stream_); }
    operator CUstream() const { return stream_; }

private:
    CUstream stream_ = nullptr;
};

class Event {
public:
    Event() { REQUIRE(cuEventCreate(&event_, CU_EVENT_DEFAULT) == CUDA_SUCCESS); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { cuEventDestroy(event_); }
    operator CUevent() const { return event_; }

private:
    CUevent event_ = nullptr;
};

/// Floats on the device.
class Floats {
public:
    explicit Floats(std::size_t count) : count_(count) {
        REQUIRE(cuMemAlloc(&data_, count * sizeof(float)) == CUDA_SUCCESS);
    }
    Floats(const Floats&) = delete;
    Floats& operator=(const Floats&) = delete;
    ~Floats() { cuMemFree(data_); }

    CUdeviceptr data() const { return data_; }
    void set(const std::vector<float>& values) {
        REQUIRE(cuMemcpyHtoD(data_, values.data(), values.size() * sizeof(float)) == CUDA_SUCCESS);
    }
    std::vector<float> get() const {
        std::vector<float> values(count_);
        REQUIRE(cuMemcpyDtoH(values.data(), data_, count_ * sizeof(float)) == CUDA_SUCCESS);
        return values;
    }

private:
    CUdeviceptr data_ = 0;
    std::size_t count_;
};

/// Replaces each block of four by its sum.
CUresult sum_blocks(const Gpu& gpu, CUdeviceptr data, unsigned count, CUstream stream) {
    std::array<void*, 2> arguments{&data, &count};
    return cuLaunchKernel(
        gpu.kernel("test_block_sum"),
        (count + 3) / 4,
        1,
        1,
        4,
        1,
        1,
        4 * sizeof(float),
        stream,
        arguments.data(),
        nullptr);
}

CUstreamCaptureStatus capture_status(CUstream stream) {
    CUstreamCaptureStatus status{};
    REQUIRE(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
    return status;
}

}  // namespace

TEST_CASE("fake driver: a kernel of a fatbin runs in its stream, after what was there before") {
    const Gpu gpu;
    const Stream stream;
    Floats data(8);
    data.set({1, 2, 3, 4, 10, 20, 30, 40});

    CHECK(sum_blocks(gpu, data.data(), 8, stream) == CUDA_SUCCESS);
    CHECK(cuMemsetD32Async(data.data(), 0x3f800000, 2, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);

    CHECK(data.get() == std::vector<float>{1, 1, 10, 10, 100, 100, 100, 100});
}

TEST_CASE("fake driver: launches that a GPU could not make are refused") {
    const Gpu gpu;
    const Stream stream;
    const Floats data(4);
    std::vector<float> host(4);
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, gpu.module(), "nothing") == CUDA_ERROR_NOT_FOUND);
    function = gpu.kernel("test_block_sum");
    CUdeviceptr pointer = data.data();
    unsigned count = 4;
    std::array<void*, 2> arguments{&pointer, &count};
    const auto launch = [&](unsigned threads, unsigned shared_bytes) {
        return cuLaunchKernel(
            function, 1, 1, 1, threads, 1, 1, shared_bytes, stream, arguments.data(), nullptr);
    };

    CHECK(launch(1025, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(launch(0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(launch(4, 64 << 10) == CUDA_ERROR_INVALID_VALUE);
    CHECK(
        cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10) ==
        CUDA_SUCCESS);
    CHECK(cuMemsetD8(pointer, 0, 16) == CUDA_SUCCESS);
    CHECK(launch(4, 64 << 10) == CUDA_SUCCESS);
    pointer = reinterpret_cast<std::uintptr_t>(host.data());
    CHECK(launch(4, 16) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemcpyHtoD(pointer, host.data(), 4) == CUDA_ERROR_INVALID_VALUE);
    cuCtxSynchronize();
}

TEST_CASE("fake driver: calls need a current context") {
    CUdeviceptr pointer = 0;
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&pointer, 4) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("fake driver: memory is counted and freed") {
    const Gpu gpu;
    std::size_t before = 0;
    std::size_t total = 0;
    std::size_t within = 0;
    REQUIRE(cuMemGetInfo(&before, &total) == CUDA_SUCCESS);
    {
        const Floats some(1 << 20);
        REQUIRE(cuMemGetInfo(&within, &total) == CUDA_SUCCESS);
        CHECK(within + (4 << 20) == before);
    }
    REQUIRE(cuMemGetInfo(&within, &total) == CUDA_SUCCESS);
    CHECK(within == before);
    CUdeviceptr pointer = 0;
    CHECK(cuMemAlloc(&pointer, total + 1) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("fake driver: a pinned word is visible to the device") {
    const Gpu gpu;
    const Stream stream;
    void* host = nullptr;
    CUdeviceptr device = 0;
    REQUIRE(cuMemHostAlloc(&host, 16, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
    REQUIRE(cuMemHostGetDevicePointer(&device, host, 0) == CUDA_SUCCESS);
    auto* const values = static_cast<float*>(host);
    std::fill_n(values, 4, 2.0F);

    CHECK(sum_blocks(gpu, device, 4, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);

    CHECK(values[3] == 8.0F);
    CHECK(cuMemFreeHost(host) == CUDA_SUCCESS);
}

TEST_CASE(
    "fake driver: what two streams captured runs at each launch, in the order of its events") {
    const Gpu gpu;
    const Stream first;
    const Stream second;
    const Event forked;
    const Event joined;
    Floats data(4);
    data.set({1, 1, 1, 1});
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;

    REQUIRE(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK(sum_blocks(gpu, data.data(), 4, first) == CUDA_SUCCESS);
    CHECK(cuEventRecord(forked, first) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(second, forked, 0) == CUDA_SUCCESS);
    CHECK(capture_status(second) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(cuMemsetD32Async(data.data(), 0, 1, second) == CUDA_SUCCESS);
    CHECK(cuEventRecord(joined, second) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(first, joined, 0) == CUDA_SUCCESS);
    CHECK(sum_blocks(gpu, data.data(), 4, first) == CUDA_SUCCESS);
    REQUIRE(cuStreamEndCapture(first, &graph) == CUDA_SUCCESS);
    CHECK(capture_status(second) == CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK(cuEventQuery(joined) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(data.get() == std::vector<float>{1, 1, 1, 1});

    REQUIRE(cuGraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
    CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    for (int launch = 0; launch < 3; ++launch)
        CHECK(cuGraphLaunch(executable, first) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(first) == CUDA_SUCCESS);
    // Each launch makes four of 4 x; the first becomes 0; then four of 12 x.
    CHECK(data.get() == std::vector<float>(4, 12.0F * 12.0F * 12.0F));
    CHECK(cuGraphExecDestroy(executable) == CUDA_SUCCESS);
}

TEST_CASE("fake driver: a capture fails when a stream did not rejoin it") {
    const Gpu gpu;
    const Stream first;
    const Stream second;
    const Event forked;
    const Floats data(4);
    CUgraph graph = nullptr;

    REQUIRE(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK(cuEventRecord(forked, first) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(second, forked, 0) == CUDA_SUCCESS);
    CHECK(cuMemsetD8Async(data.data(), 0, 4, second) == CUDA_SUCCESS);
    CHECK(cuStreamEndCapture(first, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(graph == nullptr);
}

TEST_CASE("fake driver: waiting, or a query of an event from outside, invalidates a capture") {
    const Gpu gpu;
    const Stream stream;
    const Stream other;
    const Event outside;
    CUgraph graph = nullptr;
    REQUIRE(cuEventRecord(outside, other) == CUDA_SUCCESS);

    REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(stream, outside, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE(
    "fake driver: a thread that queries its events invalidates a global capture, unless its "
    "capture mode is relaxed") {
    const Gpu gpu;
    const Stream stream;
    CUcontext context = nullptr;
    REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    const auto ask_elsewhere = [&](CUstreamCaptureMode mode) {
        CUresult result{};
        std::thread([&] {
            cuCtxPushCurrent(context);
            cuThreadExchangeStreamCaptureMode(&mode);
            CUevent event = nullptr;
            cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
            result = cuEventQuery(event);
            cuEventDestroy(event);
        }).join();
        return result;
    };
    const auto capture = [&](CUstreamCaptureMode mode, CUstreamCaptureMode elsewhere) {
        CUgraph graph = nullptr;
        REQUIRE(cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS);
        ask_elsewhere(elsewhere);
        const auto result = cuStreamEndCapture(stream, &graph);
        if (graph) cuGraphDestroy(graph);
        return result;
    };
    constexpr auto global = CU_STREAM_CAPTURE_MODE_GLOBAL;
    constexpr auto thread = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

    CHECK(capture(global, global) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(capture(global, thread) == CUDA_SUCCESS);
    CHECK(capture(thread, global) == CUDA_SUCCESS);
}

TEST_CASE("fake driver: the time between two events is the time between their completions") {
    const Gpu gpu;
    const Stream stream;
    const Event begin;
    const Event end;
    float milliseconds = -1;
    REQUIRE(cuEventRecord(begin, stream) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(end, stream) == CUDA_SUCCESS);
    REQUIRE(cuEventSynchronize(end) == CUDA_SUCCESS);
    CHECK(cuEventElapsedTime(&milliseconds, begin, end) == CUDA_SUCCESS);
    CHECK(milliseconds >= 0);
}
