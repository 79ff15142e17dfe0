// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"

#include <cstddef>
#include <string>
#include <variant>

namespace ddprun::nccl {

/// The table through which the CUDA driver is called: streams, events and memory of the context
/// that the program's CUDA runtime uses too. The driver's ABI is stable, the runtime's changes with
/// the major version, so a library that is built against neither uses the driver's.
struct DriverFunctions {
    using Status = int;  ///< a CUresult; 0 is success
    using Context = void*;
    using Stream = void*;
    using Event = void*;
    using DevicePointer = unsigned long long;
    using Module = void*;
    using Function = void*;
    using CaptureStatus = int;  ///< 0: nothing is captured
    using CaptureMode = int;

    static constexpr Status not_ready = 600;
    static constexpr CaptureMode relaxed = 2;

    Status (*init)(unsigned flags) = nullptr;
    Status (*get_error_name)(Status, const char**) = nullptr;
    Status (*get_error_string)(Status, const char**) = nullptr;
    Status (*device_get_count)(int*) = nullptr;
    Status (*device_get)(int* device, int ordinal) = nullptr;
    Status (*primary_context_retain)(Context*, int device) = nullptr;
    Status (*context_push)(Context) = nullptr;
    Status (*context_pop)(Context*) = nullptr;
    Status (*context_synchronize)() = nullptr;
    Status (*stream_create)(Stream*, unsigned flags, int priority) = nullptr;
    Status (*stream_destroy)(Stream) = nullptr;
    Status (*stream_wait_event)(Stream, Event, unsigned flags) = nullptr;
    Status (*event_create)(Event*, unsigned flags) = nullptr;
    Status (*event_record)(Event, Stream) = nullptr;
    Status (*event_query)(Event) = nullptr;
    Status (*event_destroy)(Event) = nullptr;
    Status (*memory_allocate)(DevicePointer*, std::size_t bytes) = nullptr;
    Status (*memory_free)(DevicePointer) = nullptr;
    Status (*memory_set)(DevicePointer, unsigned char value, std::size_t bytes, Stream) = nullptr;
    Status (*host_allocate)(void**, std::size_t bytes, unsigned flags) = nullptr;
    Status (*host_free)(void*) = nullptr;
    Status (*host_device_pointer)(DevicePointer*, void*, unsigned flags) = nullptr;
    Status (*copy_to_device)(DevicePointer, const void*, std::size_t bytes, Stream) = nullptr;
    Status (*copy_to_host)(void*, DevicePointer, std::size_t bytes, Stream) = nullptr;
    Status (*copy_on_device)(DevicePointer, DevicePointer, std::size_t bytes, Stream) = nullptr;
    Status (*stream_is_capturing)(Stream, CaptureStatus*) = nullptr;
    Status (*exchange_capture_mode)(CaptureMode*) = nullptr;
    Status (*module_load)(Module*, const void* image) = nullptr;
    Status (*module_function)(Function*, Module, const char* name) = nullptr;
    Status (*launch_kernel)(
        Function,
        unsigned grid_x,
        unsigned grid_y,
        unsigned grid_z,
        unsigned block_x,
        unsigned block_y,
        unsigned block_z,
        unsigned shared_bytes,
        Stream,
        void** arguments,
        void** extra) = nullptr;

    /// Opens and initialises the driver.
    static std::variant<DriverFunctions, groups::GroupError> open();

    /// "no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)".
    std::string describe(Status status) const;
};

}  // namespace ddprun::nccl
