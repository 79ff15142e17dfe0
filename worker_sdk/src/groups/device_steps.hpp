// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/device_access.hpp"
#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::groups {

/// The steps of a training loop on a group's GPU: contracts of nccl::Steps. Work is enqueued behind
/// the work in the group's stream (`Group::use_stream`; null is CUDA's default stream). Everything
/// throws like `Group::wait`, and one error ends the group.
class DeviceSteps {
public:
    /// Null where the group's buffers are in host memory.
    static std::unique_ptr<DeviceSteps> open(const std::shared_ptr<Group>& group);

    DeviceSteps(std::shared_ptr<Group> group, const DeviceAccess& access, void* handle);
    DeviceSteps(const DeviceSteps&) = delete;
    DeviceSteps& operator=(const DeviceSteps&) = delete;
    ~DeviceSteps();

    const std::uint32_t* commit_word() const { return words_.commit; }
    const float* norm() const { return words_.norm; }
    std::uint64_t committed_count() const;

    void zero(void* data, std::size_t bytes);
    void copy(void* to, const void* from, std::size_t bytes);
    /// The average over all ranks, in place.
    void average(float* values, std::size_t count);
    /// The same, but 16-bit floats of that type are sent, in `wire`.
    void average_as(ElementType type, void* wire, float* values, std::size_t count);
    void finish();
    void clip(float* values, std::size_t count, float max_norm);
    void end();
    void replay(const std::function<void()>& launch);
    void await();
    void read(void* to, const void* from, std::size_t bytes);
    bool is_capturing() const;
    bool enroll(void* data, std::size_t bytes);
    void dismiss();

private:
    template <class Call>
    void perform(const Call& call);
    void reduce(const Collective& collective, float* values);

    const std::shared_ptr<Group> group_;
    const DeviceAccess& access_;
    const DdprunDeviceSteps& table_;
    void* const handle_;
    DdprunStepWords words_{};
};

}  // namespace ddprun::groups
