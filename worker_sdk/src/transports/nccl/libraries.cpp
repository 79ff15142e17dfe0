// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/libraries.hpp"

#include <stdlib.h>

namespace ddprun::nccl {

namespace {

using groups::GroupError;

}  // namespace

std::variant<Libraries*, GroupError> Libraries::get() {
    static auto* const mutex = new std::mutex;
    static Libraries* libraries = nullptr;
    const std::lock_guard lock(*mutex);
    if (!libraries) {
        auto driver = DriverFunctions::open();
        if (auto* error = std::get_if<GroupError>(&driver)) return *error;
        const auto lookup = [](const char* name) -> const char* { return ::getenv(name); };
        if (auto refused = refuse_blocking(lookup)) return *refused;
        auto nccl = NcclFunctions::open(lookup);
        if (auto* error = std::get_if<GroupError>(&nccl)) return *error;
        libraries = new Libraries(
            std::get<DriverFunctions>(driver), std::get<NcclFunctions>(std::move(nccl)));
    }
    auto counted = libraries->device_count();
    if (auto* error = std::get_if<GroupError>(&counted)) return *error;
    return libraries;
}

std::variant<int, GroupError> Libraries::device_count() const {
    int count = 0;
    const auto status = driver.device_get_count(&count);
    if (status == 0) return count;
    return GroupError{
        GroupError::Kind::usage, "GPUs cannot be counted: " + driver.describe(status)};
}

std::variant<const Device*, GroupError> Libraries::device(int ordinal) {
    const std::lock_guard lock(mutex_);
    if (const auto known = devices_.find(ordinal); known != devices_.end()) return &known->second;
    auto opened = Device::open(driver, ordinal);
    if (auto* error = std::get_if<GroupError>(&opened)) return *error;
    return &devices_.emplace(ordinal, std::get<Device>(opened)).first->second;
}

}  // namespace ddprun::nccl
