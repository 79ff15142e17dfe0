// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/driver_functions.hpp"

#include "worker_sdk/src/transports/nccl/library.hpp"

namespace ddprun::nccl {

namespace {

using groups::GroupError;

/// The names of the current interface: cuda.h maps the plain names to them.
void fill(DriverFunctions& table, Library& library) {
    library.require(table.init, "cuInit");
    library.require(table.get_error_name, "cuGetErrorName");
    library.require(table.get_error_string, "cuGetErrorString");
    library.require(table.device_get_count, "cuDeviceGetCount");
    library.require(table.device_get, "cuDeviceGet");
    library.require(table.primary_context_retain, "cuDevicePrimaryCtxRetain");
    library.require(table.context_push, "cuCtxPushCurrent_v2");
    library.require(table.context_pop, "cuCtxPopCurrent_v2");
    library.require(table.context_synchronize, "cuCtxSynchronize");
    library.require(table.stream_create, "cuStreamCreateWithPriority");
    library.require(table.stream_destroy, "cuStreamDestroy_v2");
    library.require(table.stream_wait_event, "cuStreamWaitEvent");
    library.require(table.event_create, "cuEventCreate");
    library.require(table.event_record, "cuEventRecord");
    library.require(table.event_query, "cuEventQuery");
    library.require(table.event_destroy, "cuEventDestroy_v2");
    library.require(table.memory_allocate, "cuMemAlloc_v2");
    library.require(table.memory_free, "cuMemFree_v2");
    library.require(table.memory_set, "cuMemsetD8Async");
    library.require(table.host_allocate, "cuMemHostAlloc");
    library.require(table.host_free, "cuMemFreeHost");
    library.require(table.host_device_pointer, "cuMemHostGetDevicePointer_v2");
    library.require(table.copy_to_device, "cuMemcpyHtoDAsync_v2");
    library.require(table.copy_to_host, "cuMemcpyDtoHAsync_v2");
    library.require(table.copy_on_device, "cuMemcpyDtoDAsync_v2");
    library.require(table.stream_is_capturing, "cuStreamIsCapturing");
    library.require(table.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
    library.require(table.module_load, "cuModuleLoadData");
    library.require(table.module_function, "cuModuleGetFunction");
    library.require(table.launch_kernel, "cuLaunchKernel");
}

GroupError without_gpu(const std::string& why) {
    return {GroupError::Kind::usage, "this machine has no GPU, or no driver for it: " + why};
}

}  // namespace

std::variant<DriverFunctions, GroupError> DriverFunctions::open() {
    auto opened = Library::open("the CUDA driver", driver_places());
    if (const auto* error = std::get_if<GroupError>(&opened)) return without_gpu(error->text);
    auto& library = std::get<Library>(opened);
    DriverFunctions table;
    fill(table, library);
    if (!library.missing().empty())
        return GroupError{
            GroupError::Kind::usage, "the CUDA driver is too old, it lacks " + library.missing()};
    if (const auto status = table.init(0)) return without_gpu(table.describe(status));
    return table;
}

std::string DriverFunctions::describe(Status status) const {
    const char* words = nullptr;
    const char* name = nullptr;
    if (get_error_string(status, &words) != 0 || !words) words = "an error of the CUDA driver";
    if (get_error_name(status, &name) != 0 || !name) name = "unknown";
    return std::string{words} + " (" + name + " " + std::to_string(status) + ")";
}

}  // namespace ddprun::nccl
