// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/nccl/device_memory.hpp"

#include "worker_sdk/src/nccl/patience.hpp"

namespace ddprun::nccl {

void* DeviceMemory::take(const Device& device, std::size_t bytes) {
    const OnDevice here(device);
    void* const data = take_any(device, bytes);
    if (!data) return nullptr;
    const auto pointer = reinterpret_cast<DriverFunctions::DevicePointer>(data);
    const Queue queue(device);
    const bool is_begun = !queue.error() &&
                          device.driver().memory_set(pointer, 0, bytes, queue.stream()) == 0 &&
                          queue.mark_end() == 0;
    for (Pause pause; is_begun && queue.look() == DriverFunctions::not_ready;)
        pause.take();
    if (is_begun && queue.look() == 0) return data;
    give_back(device, data);
    return nullptr;
}

void* DeviceMemory::take_any(const Device& device, std::size_t bytes) {
    void* data = nullptr;
    if (nccl_.mem_alloc && nccl_.mem_free &&
        nccl_.mem_alloc(&data, bytes) == abi::Result::success && data) {
        const std::lock_guard lock(mutex_);
        from_nccl_.insert(data);
        return data;
    }
    DriverFunctions::DevicePointer pointer = 0;
    if (device.driver().memory_allocate(&pointer, bytes) != 0) return nullptr;
    return reinterpret_cast<void*>(pointer);
}

/// A kernel whose memory is unmapped destroys the whole context, and neither NCCL nor the driver
/// guarantees to wait for kernels.
void DeviceMemory::give_back(const Device& device, void* data) {
    const OnDevice here(device);
    device.driver().context_synchronize();
    bool is_from_nccl = false;
    {
        const std::lock_guard lock(mutex_);
        is_from_nccl = from_nccl_.erase(data) > 0;
    }
    if (is_from_nccl)
        nccl_.mem_free(data);
    else
        device.driver().memory_free(reinterpret_cast<DriverFunctions::DevicePointer>(data));
}

}  // namespace ddprun::nccl
