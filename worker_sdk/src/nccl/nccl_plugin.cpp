// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/nccl/device_choice.hpp"
#include "worker_sdk/src/nccl/device_memory.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"
#include "worker_sdk/src/nccl/report.hpp"
#include "worker_sdk/src/nccl/session.hpp"
#include "worker_sdk/src/nccl/steps_border.hpp"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

/// libddprun_nccl.so: the nccl backend behind a plain C ABI. Links neither NCCL nor CUDA; they are
/// opened when the first group needs them.
namespace {

using namespace ddprun::nccl;
using ddprun::groups::GroupError;

/// The libraries that this process has opened, until it ends: NCCL's threads may use them.
class Libraries {
public:
    /// Searched again until it is found.
    static std::variant<Libraries*, GroupError> get() {
        static auto* const mutex = new std::mutex;
        static Libraries* libraries = nullptr;
        const std::lock_guard lock(*mutex);
        if (libraries) return libraries;
        auto driver = DriverFunctions::open();
        if (auto* error = std::get_if<GroupError>(&driver)) return *error;
        const auto lookup = [](const char* name) -> const char* { return ::getenv(name); };
        auto nccl = NcclFunctions::open(lookup);
        if (auto* error = std::get_if<GroupError>(&nccl)) return *error;
        libraries = new Libraries(std::get<DriverFunctions>(driver), std::get<NcclFunctions>(nccl));
        return libraries;
    }

    std::variant<const Device*, GroupError> device(int ordinal) {
        const std::lock_guard lock(mutex_);
        if (const auto known = devices_.find(ordinal); known != devices_.end())
            return &known->second;
        auto opened = Device::open(driver, ordinal);
        if (auto* error = std::get_if<GroupError>(&opened)) return *error;
        return &devices_.emplace(ordinal, std::get<Device>(opened)).first->second;
    }

    std::variant<int, GroupError> device_count() const {
        int count = 0;
        const auto status = driver.device_get_count(&count);
        if (status == 0) return count;
        return GroupError{
            GroupError::Kind::usage, "GPUs cannot be counted: " + driver.words_of(status)};
    }

    const DriverFunctions driver;
    const NcclFunctions nccl;
    DeviceMemory memory{nccl};

private:
    Libraries(DriverFunctions driver_functions, NcclFunctions nccl_functions)
        : driver(driver_functions),
          nccl(std::move(nccl_functions)) {}

    std::mutex mutex_;
    std::map<int, Device> devices_;
};

int count_devices(DdprunReport* report) {
    return guarded(report, 0, [&]() -> std::variant<int, GroupError> {
        auto libraries = Libraries::get();
        if (auto* error = std::get_if<GroupError>(&libraries)) return *error;
        return std::get<Libraries*>(libraries)->device_count();
    });
}

std::variant<Session*, GroupError> opened(const DdprunDeviceOpen& settings, int* ordinal) {
    auto got = Libraries::get();
    if (auto* error = std::get_if<GroupError>(&got)) return *error;
    auto& libraries = *std::get<Libraries*>(got);
    auto counted = libraries.device_count();
    if (auto* error = std::get_if<GroupError>(&counted)) return *error;
    auto chosen = choose_device(
        std::get<int>(counted),
        settings.local_rank,
        settings.local_world_size,
        settings.shares_device != 0);
    if (auto* error = std::get_if<GroupError>(&chosen)) return *error;
    *ordinal = std::get<DeviceChoice>(chosen).first;
    auto device = libraries.device(*ordinal);
    if (auto* error = std::get_if<GroupError>(&device)) return *error;
    auto session = Session::open(libraries.nccl, *std::get<const Device*>(device), settings);
    if (auto* error = std::get_if<GroupError>(&session)) return *error;
    return std::get<std::unique_ptr<Session>>(session).release();
}

void* open_session(const DdprunDeviceOpen* settings, int* device, DdprunReport* report) {
    return guarded(report, static_cast<void*>(nullptr), [&] { return opened(*settings, device); });
}

void* split_session(void* session, int color, int key, DdprunReport* report) {
    return guarded(report, static_cast<void*>(nullptr), [&] {
        return static_cast<Session*>(session)->split(color, key);
    });
}

void drop_part(void* session, void* part) {
    static_cast<Session*>(session)->drop(static_cast<Communicators::Comm>(part));
}

int follow_stream(void* session, const DdprunCollective* collective, DdprunReport* report) {
    return told(report, [&] { return static_cast<Session*>(session)->follow(*collective); });
}

int begin_collective(
    void* session, const DdprunCollective* collective, int* begun, DdprunReport* report) {
    *begun = guarded(report, 0, [&]() -> std::variant<int, GroupError> {
        auto result = static_cast<Session*>(session)->begin(*collective);
        if (auto* error = std::get_if<GroupError>(&result)) return *error;
        return std::get<bool>(result) ? 1 : 0;
    });
    return report->kind;
}

int run_collective(void* session, const DdprunCollective* collective, DdprunReport* report) {
    return told(report, [&] { return static_cast<Session*>(session)->run(*collective); });
}

void abort_session(void* session) {
    static_cast<Session*>(session)->abort();
}

int is_session_broken(void* session) {
    return static_cast<Session*>(session)->is_broken() ? 1 : 0;
}

void close_session(void* session) {
    delete static_cast<Session*>(session);
}

/// Requires: a session was opened on it.
const Device* known_device(Libraries& libraries, int ordinal) {
    auto device = libraries.device(ordinal);
    const auto* known = std::get_if<const Device*>(&device);
    return known ? *known : nullptr;
}

void* allocate(int ordinal, std::size_t bytes) {
    auto libraries = Libraries::get();
    auto* const known = std::get_if<Libraries*>(&libraries);
    if (!known) return nullptr;
    const auto* device = known_device(**known, ordinal);
    return device ? (*known)->memory.take(*device, bytes) : nullptr;
}

void give_back(int ordinal, void* data) {
    auto libraries = Libraries::get();
    auto* const known = std::get_if<Libraries*>(&libraries);
    if (!known) return;
    if (const auto* device = known_device(**known, ordinal))
        (*known)->memory.give_back(*device, data);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const DdprunDevicePlugin* ddprun_nccl_plugin() {
    static const DdprunDevicePlugin plugin{
        plugin_version,
        count_devices,
        open_session,
        split_session,
        drop_part,
        follow_stream,
        begin_collective,
        run_collective,
        abort_session,
        is_session_broken,
        close_session,
        allocate,
        give_back,
        steps_border()};
    return &plugin;
}
