// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of a simulated GPU: memory. New memory is full of garbage. Pointers
// to other memory are refused where device memory is required.
#include "tests/process/sdk/fake_gpu/memory.hpp"

#include <stdlib.h>
#include <string.h>

#include <algorithm>

using namespace fake_gpu;

namespace {

using DevicePointer = unsigned long long;

struct Region {
    std::size_t bytes = 0;
    const Context* context = nullptr;  ///< null: the host's, pinned
};
using Regions = std::map<const char*, Region>;

Regions& regions() {
    static auto* const all = new Regions;
    return *all;
}

std::size_t total_memory() {
    const char* bytes = ::getenv("FAKE_GPU_MEMORY");
    return bytes ? ::strtoull(bytes, nullptr, 10) : std::size_t{8} << 30;
}

std::size_t used_memory(const Context& context) {
    std::size_t used = 0;
    for (const auto& [data, region] : regions())
        if (region.context == &context) used += region.bytes;
    return used;
}

/// The block that contains all these bytes, or the end.
Regions::const_iterator find_region(const void* data, std::size_t bytes) {
    const auto* const first = static_cast<const char*>(data);
    auto after = regions().upper_bound(first);
    if (after == regions().begin()) return regions().end();
    --after;
    const auto begin = static_cast<std::size_t>(first - after->first);
    const bool has_all = begin <= after->second.bytes && bytes <= after->second.bytes - begin;
    return has_all ? after : regions().end();
}

bool is_pinned(const void* data, std::size_t bytes) {
    const auto found = find_region(data, bytes);
    return found != regions().end() && !found->second.context;
}

void* pointer_of(DevicePointer pointer) {
    return reinterpret_cast<void*>(pointer);
}

DevicePointer number_of(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

Work copy_work(void* to, const void* from, std::size_t bytes) {
    return [=] {
        return [=] {
            if (bytes > 0) ::memcpy(to, from, bytes);
            return true;
        };
    };
}

/// Copies the content that the memory has at this time.
Work copy_work(void* to, const std::shared_ptr<std::vector<char>>& from) {
    return [=] {
        return [=] {
            if (!from->empty()) ::memcpy(to, from->data(), from->size());
            return true;
        };
    };
}

template <class T>
int fill(DevicePointer at, T value, std::size_t count, void* stream) {
    return in_stream(stream, [&](Context&, Stream& into) -> int {
        auto* const first = static_cast<T*>(pointer_of(at));
        if (at % sizeof(T) != 0 || !is_device_memory(first, count * sizeof(T)))
            return invalid_value;
        return Engine::only().enqueue(into, [=] {
            return [=] {
                std::fill_n(first, count, value);
                return true;
            };
        });
    });
}

/// Pageable memory is read before the call returns, as in the real driver; pinned memory later.
int copy_to_device(DevicePointer to, const void* from, std::size_t bytes, void* stream) {
    return in_stream(stream, [&](Context&, Stream& into) -> int {
        if (!is_device_memory(pointer_of(to), bytes)) return invalid_value;
        if (into.capture || is_pinned(from, bytes))
            return Engine::only().enqueue(into, copy_work(pointer_of(to), from, bytes));
        const auto* const first = static_cast<const char*>(from);
        auto now = std::make_shared<std::vector<char>>(first, first + bytes);
        return Engine::only().enqueue(into, copy_work(pointer_of(to), now));
    });
}

/// Sets `waits` if the call must return only when the copy is done, because the memory is pageable.
int copy_to_host(void* to, DevicePointer from, std::size_t bytes, void* stream, bool& waits) {
    return in_stream(stream, [&](Context&, Stream& into) -> int {
        if (!is_device_memory(pointer_of(from), bytes)) return invalid_value;
        waits = !into.capture && !is_pinned(to, bytes);
        return Engine::only().enqueue(into, copy_work(to, pointer_of(from), bytes));
    });
}

int copy_on_device(DevicePointer to, DevicePointer from, std::size_t bytes, void* stream) {
    return in_stream(stream, [&](Context&, Stream& into) -> int {
        if (!is_device_memory(pointer_of(to), bytes)) return invalid_value;
        if (!is_device_memory(pointer_of(from), bytes)) return invalid_value;
        return Engine::only().enqueue(into, copy_work(pointer_of(to), pointer_of(from), bytes));
    });
}

/// Synchronous copies are not allowed during a capture.
int ask_for_synchronous() {
    return in_context([](Context&) { return Engine::only().unless_capturing(); });
}

int wait_for_device() {
    Context* here = nullptr;
    const int status = in_context([&](Context& context) {
        here = &context;
        return success;
    });
    if (status) return status;
    return Engine::only().wait_until([&] { return Engine::only().is_idle(*here); });
}

int remove_region(const void* data, bool is_host) {
    return in_context([&](Context&) -> int {
        const auto found = regions().find(static_cast<const char*>(data));
        if (found == regions().end() || is_host != !found->second.context) return invalid_value;
        regions().erase(found);
        ::free(const_cast<void*>(data));
        return success;
    });
}

/// As in the real driver, memory is freed when the device is idle.
int free_region(const void* data, bool is_host) {
    if (!data) return success;
    if (const int status = ask_for_synchronous()) return status;
    if (const int status = wait_for_device()) return status;
    return remove_region(data, is_host);
}

void* take_region(std::size_t bytes, const Context* context) {
    constexpr int garbage = 0xcb;
    constexpr std::size_t alignment = 256;
    void* const data = ::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!data) return nullptr;
    ::memset(data, garbage, bytes);
    regions()[static_cast<const char*>(data)] = {bytes, context};
    return data;
}

}  // namespace

bool fake_gpu::is_device_memory(const void* data, std::size_t bytes) {
    return find_region(data, bytes) != regions().end();
}

extern "C" int cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
    return in_context([&](Context& context) -> int {
        if (bytes == 0) return invalid_value;
        if (const int status = Engine::only().unless_capturing()) return status;
        if (bytes > total_memory() - used_memory(context)) return out_of_memory;
        *pointer = number_of(take_region(bytes, &context));
        return *pointer ? success : out_of_memory;
    });
}

/// As in the real driver, and unlike cuMemFree, this takes effect at once.
extern "C" int cuMemUnmap(DevicePointer pointer, std::size_t) {
    return remove_region(pointer_of(pointer), false);
}

extern "C" int cuMemFree_v2(DevicePointer pointer) {
    return free_region(pointer_of(pointer), false);
}

extern "C" int cuMemHostAlloc(void** data, std::size_t bytes, unsigned) {
    return in_context([&](Context&) -> int {
        if (const int status = Engine::only().unless_capturing()) return status;
        *data = take_region(bytes, nullptr);
        return *data ? success : out_of_memory;
    });
}

extern "C" int cuMemAllocHost_v2(void** data, std::size_t bytes) {
    return cuMemHostAlloc(data, bytes, 0);
}

extern "C" int cuMemFreeHost(void* data) {
    return free_region(data, true);
}

extern "C" int cuMemHostGetDevicePointer_v2(DevicePointer* pointer, void* data, unsigned) {
    return in_context([&](Context&) -> int {
        if (!is_pinned(data, 1)) return invalid_value;
        *pointer = number_of(data);
        return success;
    });
}

extern "C" int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    return in_context([&](Context& context) {
        *total = total_memory();
        *free = *total - used_memory(context);
        return success;
    });
}

extern "C" int cuMemsetD8Async(
    DevicePointer at, unsigned char value, std::size_t count, void* stream) {
    return fill(at, value, count, stream);
}

extern "C" int cuMemsetD32Async(DevicePointer at, unsigned value, std::size_t count, void* stream) {
    return fill(at, value, count, stream);
}

extern "C" int cuMemsetD8_v2(DevicePointer at, unsigned char value, std::size_t count) {
    return fill(at, value, count, nullptr);
}

extern "C" int cuMemsetD32_v2(DevicePointer at, unsigned value, std::size_t count) {
    return fill(at, value, count, nullptr);
}

extern "C" int cuStreamSynchronize(void* stream);

extern "C" int cuMemcpyHtoDAsync_v2(
    DevicePointer to, const void* from, std::size_t bytes, void* stream) {
    return copy_to_device(to, from, bytes, stream);
}

extern "C" int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, void* stream) {
    bool waits = false;
    const int status = copy_to_host(to, from, bytes, stream, waits);
    return status == success && waits ? cuStreamSynchronize(stream) : status;
}

extern "C" int cuMemcpyDtoDAsync_v2(
    DevicePointer to, DevicePointer from, std::size_t bytes, void* stream) {
    return copy_on_device(to, from, bytes, stream);
}

extern "C" int cuMemcpyHtoD_v2(DevicePointer to, const void* from, std::size_t bytes) {
    if (const int status = ask_for_synchronous()) return status;
    const int status = copy_to_device(to, from, bytes, nullptr);
    return status ? status : cuStreamSynchronize(nullptr);
}

extern "C" int cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t bytes) {
    if (const int status = ask_for_synchronous()) return status;
    bool waits = false;
    const int status = copy_to_host(to, from, bytes, nullptr, waits);
    return status ? status : cuStreamSynchronize(nullptr);
}

extern "C" int cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, std::size_t bytes) {
    if (const int status = ask_for_synchronous()) return status;
    return copy_on_device(to, from, bytes, nullptr);
}
