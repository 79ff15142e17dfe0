// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/device_arena.hpp"

#include <utility>

namespace ddprun::nccl {

DeviceArena::DeviceArena(
    const NcclFunctions& nccl,
    const Device& device,
    std::shared_ptr<HangWatchdog> hang_watchdog,
    std::chrono::milliseconds longest_wait)
    : nccl_(nccl),
      device_(device),
      hang_watchdog_(std::move(hang_watchdog)),
      longest_wait_(longest_wait) {}

DeviceArena::Watched::Watched(DeviceArena& arena)
    : arena_(arena),
      latest_end_(Clock::now() + arena.longest_wait_) {
    const std::lock_guard lock(arena_.mutex_);
    arena_.latest_ends_.insert(latest_end_);
    arena_.watch_earliest();
}

DeviceArena::Watched::~Watched() {
    const std::lock_guard lock(arena_.mutex_);
    arena_.latest_ends_.erase(arena_.latest_ends_.find(latest_end_));
    arena_.watch_earliest();
}

/// Requires: the mutex.
void DeviceArena::watch_earliest() {
    watch_.reset();
    if (!latest_ends_.empty())
        watch_.emplace(*hang_watchdog_, HangWatchdog::Work::memory, *latest_ends_.begin());
}

void* DeviceArena::take(std::size_t bytes) {
    const Watched watched(*this);
    return zeroed(bytes);
}

void DeviceArena::give_back(void* data, std::size_t) {
    const Watched watched(*this);
    release(data);
}

void* DeviceArena::zeroed(std::size_t bytes) {
    const OnDevice here(device_);
    void* const data = allocate(bytes);
    if (!data) return nullptr;
    const auto pointer = reinterpret_cast<DriverFunctions::DevicePointer>(data);
    const Queue queue(device_);
    const bool is_begun = !queue.error() &&
                          device_.driver().memory_set(pointer, 0, bytes, queue.stream()) == 0 &&
                          queue.mark_end() == 0;
    for (Pause pause; is_begun && queue.look() == DriverFunctions::not_ready;)
        pause.take();
    if (is_begun && queue.look() == 0) return data;
    release(data);
    return nullptr;
}

void* DeviceArena::allocate(std::size_t bytes) {
    void* data = nullptr;
    if (nccl_.mem_alloc && nccl_.mem_free &&
        nccl_.mem_alloc(&data, bytes) == abi::Result::success && data) {
        const std::lock_guard lock(mutex_);
        from_nccl_.insert(data);
        return data;
    }
    DriverFunctions::DevicePointer pointer = 0;
    if (device_.driver().memory_allocate(&pointer, bytes) != 0) return nullptr;
    return reinterpret_cast<void*>(pointer);
}

/// Waits for the device before unmapping: a kernel whose memory is unmapped destroys the whole
/// context, and neither NCCL nor the driver guarantees to wait for kernels.
void DeviceArena::release(void* data) {
    const OnDevice here(device_);
    device_.driver().context_synchronize();
    bool is_from_nccl = false;
    {
        const std::lock_guard lock(mutex_);
        is_from_nccl = from_nccl_.erase(data) > 0;
    }
    if (is_from_nccl)
        nccl_.mem_free(data);
    else
        device_.driver().memory_free(reinterpret_cast<DriverFunctions::DevicePointer>(data));
}

}  // namespace ddprun::nccl
