// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/device.hpp"

#include <string>

namespace ddprun::nccl {

namespace {

using groups::GroupError;

constexpr unsigned stream_non_blocking = 1;                // CU_STREAM_NON_BLOCKING
constexpr DriverFunctions::Status capture_implicit = 906;  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT

}  // namespace

std::variant<Device, GroupError> Device::open(const DriverFunctions& driver, int ordinal) {
    Device device;
    device.driver_ = &driver;
    device.ordinal_ = ordinal;
    int handle = 0;
    auto status = driver.device_get(&handle, ordinal);
    if (status == 0) status = driver.primary_context_retain(&device.context_, handle);
    if (status == 0) return device;
    return GroupError{
        GroupError::Kind::other,
        "cuda:" + std::to_string(ordinal) + " cannot be used: " + driver.describe(status)};
}

GroupError Device::error(DriverFunctions::Status status) const {
    return {
        GroupError::Kind::other,
        "cuda:" + std::to_string(ordinal_) + ": " + driver_->describe(status)};
}

bool Device::is_capturing(DriverFunctions::Stream stream) const {
    DriverFunctions::CaptureStatus status = 0;
    const auto answer = driver_->stream_is_capturing(stream, &status);
    return answer == capture_implicit || (answer == 0 && status != 0);
}

OnDevice::OnDevice(const Device& device) : device_(device) {
    device_.driver().context_push(device_.context());
    device_.driver().exchange_capture_mode(&capture_mode_);
}

OnDevice::~OnDevice() {
    device_.driver().exchange_capture_mode(&capture_mode_);
    DriverFunctions::Context ours = nullptr;
    device_.driver().context_pop(&ours);
}

Queue::Queue(const Device& device) : device_(device) {
    const auto& driver = device_.driver();
    auto status = driver.stream_create(&stream_, stream_non_blocking, 0);
    if (status == 0) status = driver.event_create(&end_, event_without_time);
    if (status == 0) status = driver.event_create(&before_, event_without_time);
    if (status != 0) error_ = device_.error(status);
}

Queue::~Queue() {
    const OnDevice here(device_);
    const auto& driver = device_.driver();
    for (const auto event : {end_, before_})
        if (event) driver.event_destroy(event);
    if (stream_) driver.stream_destroy(stream_);
}

DriverFunctions::Status Queue::follow(DriverFunctions::Stream other) const {
    const auto& driver = device_.driver();
    if (const auto status = driver.event_record(before_, other)) return status;
    return driver.stream_wait_event(stream_, before_, 0);
}

DriverFunctions::Status Queue::precede(DriverFunctions::Stream other) const {
    const auto& driver = device_.driver();
    if (const auto status = driver.event_record(before_, stream_)) return status;
    return driver.stream_wait_event(other, before_, 0);
}

DriverFunctions::Status Queue::mark_end() const {
    return device_.driver().event_record(end_, stream_);
}

DriverFunctions::Status Queue::look() const {
    return device_.driver().event_query(end_);
}

}  // namespace ddprun::nccl
