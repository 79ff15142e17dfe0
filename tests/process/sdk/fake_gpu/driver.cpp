// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of a GPU that is not there. FAKE_GPU_COUNT: how many there are (8).
#include "tests/process/sdk/fake_gpu/stream.hpp"

#include <stdlib.h>
#include <string.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace {

using fake_gpu::Task;

constexpr int success = 0;
constexpr int out_of_memory = 2;
constexpr int no_device = 100;
constexpr int invalid_device = 101;
constexpr int invalid_context = 201;
constexpr int not_ready = 600;

struct Stream {
    std::deque<Task> tasks;
    std::uint64_t enqueued = 0;
    std::uint64_t done = 0;
};

struct Event {
    Stream* stream = nullptr;
    std::uint64_t at = 0;
};

std::mutex mutex;
/// Calls need a context, as with the real one.
thread_local int contexts = 0;

int device_count() {
    const char* count = ::getenv("FAKE_GPU_COUNT");
    return count ? ::atoi(count) : 8;
}

void go_on(Stream& stream) {
    while (!stream.tasks.empty() && stream.tasks.front()()) {
        stream.tasks.pop_front();
        ++stream.done;
    }
}

void enqueue(Stream& stream, Task task) {
    stream.tasks.push_back(std::move(task));
    ++stream.enqueued;
}

bool is_over(const Event& event) {
    if (!event.stream) return true;
    go_on(*event.stream);
    return event.stream->done >= event.at;
}

/// With the lock and a context, or an error.
template <class Body>
int in_context(const Body& body) {
    if (contexts == 0) return invalid_context;
    const std::lock_guard lock(mutex);
    return body();
}

/// The legacy stream is one that has nothing in it.
Stream& stream_of(void* handle) {
    static Stream legacy;
    return handle ? *static_cast<Stream*>(handle) : legacy;
}

}  // namespace

extern "C" void fake_gpu_enqueue(void* stream, Task* task) {
    const std::lock_guard lock(mutex);
    enqueue(stream_of(stream), std::move(*task));
}

extern "C" int cuInit(unsigned) {
    return device_count() > 0 ? success : no_device;
}

extern "C" int cuGetErrorName(int status, const char** name) {
    *name = status == no_device ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OF_THE_FAKE";
    return success;
}

extern "C" int cuGetErrorString(int status, const char** text) {
    *text = status == no_device ? "no CUDA-capable device is detected" : "an error of the fake";
    return success;
}

extern "C" int cuDeviceGetCount(int* count) {
    *count = device_count();
    return success;
}

extern "C" int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < device_count() ? success : invalid_device;
}

extern "C" int cuDevicePrimaryCtxRetain(void** context, int) {
    static char only;
    *context = &only;
    return success;
}

extern "C" int cuCtxPushCurrent_v2(void*) {
    ++contexts;
    return success;
}

extern "C" int cuCtxPopCurrent_v2(void**) {
    --contexts;
    return success;
}

extern "C" int cuStreamCreateWithPriority(void** stream, unsigned, int) {
    return in_context([&] {
        *stream = new Stream;
        return success;
    });
}

extern "C" int cuStreamDestroy_v2(void* stream) {
    return in_context([&] {
        delete static_cast<Stream*>(stream);
        return success;
    });
}

extern "C" int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    return in_context([&] {
        const auto awaited = *static_cast<Event*>(event);
        enqueue(stream_of(stream), [awaited] { return is_over(awaited); });
        return success;
    });
}

extern "C" int cuEventCreate(void** event, unsigned) {
    return in_context([&] {
        *event = new Event;
        return success;
    });
}

extern "C" int cuEventRecord(void* event, void* stream) {
    return in_context([&] {
        auto& of = stream_of(stream);
        *static_cast<Event*>(event) = {&of, of.enqueued};
        return success;
    });
}

extern "C" int cuEventQuery(void* event) {
    return in_context([&] { return is_over(*static_cast<Event*>(event)) ? success : not_ready; });
}

extern "C" int cuEventDestroy_v2(void* event) {
    return in_context([&] {
        delete static_cast<Event*>(event);
        return success;
    });
}

extern "C" int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes) {
    return in_context([&] {
        void* const data = ::malloc(bytes);
        *pointer = reinterpret_cast<std::uintptr_t>(data);
        return data ? success : out_of_memory;
    });
}

extern "C" int cuMemFree_v2(unsigned long long pointer) {
    return in_context([&] {
        ::free(reinterpret_cast<void*>(pointer));
        return success;
    });
}

extern "C" int cuMemsetD8Async(
    unsigned long long pointer, unsigned char value, std::size_t bytes, void* stream) {
    return in_context([&] {
        enqueue(stream_of(stream), [=] {
            ::memset(reinterpret_cast<void*>(pointer), value, bytes);
            return true;
        });
        return success;
    });
}
