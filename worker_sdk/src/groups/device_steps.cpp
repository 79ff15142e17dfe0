// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/device_steps.hpp"

#include <atomic>
#include <exception>
#include <utility>

namespace ddprun::groups {

std::unique_ptr<DeviceSteps> DeviceSteps::open(const std::shared_ptr<Group>& group) {
    const auto* access = group->device_access();
    if (!access) return nullptr;
    void* handle = nullptr;
    group->perform_beside_queue([&]() -> Outcome {
        DdprunReport report{};
        handle = access->plugin.steps.open(access->handle, &report);
        if (handle) return {};
        return access->reason(report);
    });
    return std::make_unique<DeviceSteps>(group, *access, handle);
}

DeviceSteps::DeviceSteps(std::shared_ptr<Group> group, const DeviceAccess& access, void* handle)
    : group_(std::move(group)),
      access_(access),
      table_(access.plugin.steps),
      handle_(handle) {
    table_.words(handle_, &words_);
}

DeviceSteps::~DeviceSteps() {
    table_.close(handle_);
}

/// The device writes it.
std::uint64_t DeviceSteps::committed_count() const {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(words_.committed)->load();
}

template <class Call>
void DeviceSteps::perform(const Call& call) {
    group_->perform_beside_queue([&]() -> Outcome {
        DdprunReport report{};
        if (call(&report) == 0) return {};
        return access_.reason(report);
    });
}

void DeviceSteps::zero(void* data, std::size_t bytes) {
    perform(
        [&](auto* report) { return table_.zero(handle_, group_->stream(), data, bytes, report); });
}

void DeviceSteps::copy(void* to, const void* from, std::size_t bytes) {
    perform([&](auto* report) {
        return table_.copy(handle_, group_->stream(), to, from, bytes, report);
    });
}

void DeviceSteps::average(float* values, std::size_t count) {
    Collective collective;
    collective.kind = Collective::Kind::all_reduce;
    collective.type = ElementType::float32;
    collective.op = Op::average;
    collective.data = values;
    collective.count = count;
    reduce(collective, nullptr);
}

void DeviceSteps::average_as(ElementType type, void* wire, float* values, std::size_t count) {
    Collective collective;
    collective.kind = Collective::Kind::all_reduce;
    collective.type = type;
    collective.op = Op::sum;
    collective.data = wire;
    collective.count = count;
    reduce(collective, values);
}

void DeviceSteps::reduce(const Collective& collective, float* values) {
    perform([&](auto* report) {
        const auto call = device_call(collective, {});
        return table_.reduce(handle_, group_->stream(), &call, values, report);
    });
}

void DeviceSteps::finish() {
    perform([&](auto* report) { return table_.finish(handle_, group_->stream(), report); });
}

void DeviceSteps::clip(float* values, std::size_t count, float max_norm) {
    perform([&](auto* report) {
        return table_.clip(handle_, group_->stream(), values, count, max_norm, report);
    });
}

void DeviceSteps::end() {
    perform([&](auto* report) { return table_.end(handle_, group_->stream(), report); });
}

void DeviceSteps::replay(const std::function<void()>& launch) {
    struct Launch {
        const std::function<void()>& launch;
        std::exception_ptr failure{};
    } body{launch};
    const auto run = [](void* self) {
        auto& here = *static_cast<Launch*>(self);
        try {
            here.launch();
        } catch (...) {  // C lies between here and the caller
            here.failure = std::current_exception();
        }
    };
    perform(
        [&](auto* report) { return table_.replay(handle_, group_->stream(), run, &body, report); });
    if (body.failure) std::rethrow_exception(body.failure);
}

void DeviceSteps::await() {
    perform([&](auto* report) { return table_.await(handle_, group_->stream(), report); });
}

void DeviceSteps::read(void* to, const void* from, std::size_t bytes) {
    perform([&](auto* report) {
        return table_.read(handle_, group_->stream(), to, from, bytes, report);
    });
}

bool DeviceSteps::is_capturing() const {
    return table_.is_capturing(handle_, group_->stream()) != 0;
}

bool DeviceSteps::enroll(void* data, std::size_t bytes) {
    return table_.enroll(handle_, data, bytes) != 0;
}

void DeviceSteps::dismiss() {
    table_.dismiss(handle_);
}

}  // namespace ddprun::groups
