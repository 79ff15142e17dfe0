// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/transports/nccl/nccl_transport.hpp"
#include "worker_sdk/src/transports/nccl/steps.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::nccl {

/// The steps of a training loop on a group's GPU, with the contracts of `Steps`. Work is enqueued
/// behind the work in the group's stream (`Group::use_stream`; null is CUDA's default stream). All
/// functions throw like `Group::wait`, and one error ends the group.
class DeviceSteps {
public:
    /// Null when the group's buffers are in host memory.
    static std::unique_ptr<DeviceSteps> open(const std::shared_ptr<groups::Group>& group);

    DeviceSteps(std::shared_ptr<groups::Group> group, NcclTransport& transport);
    DeviceSteps(const DeviceSteps&) = delete;
    DeviceSteps& operator=(const DeviceSteps&) = delete;

    const std::uint32_t* commit_word() const { return steps_->commit_word(); }
    const float* norm() const { return steps_->norm(); }
    std::uint64_t committed_count() const { return steps_->committed_count(); }

    void zero(void* data, std::size_t bytes);
    void copy(void* to, const void* from, std::size_t bytes);
    /// Averages the values over all ranks, in place.
    void average(float* values, std::size_t count);
    /// Like `average`, but sends 16-bit floats of this type, from the buffer `wire`.
    void average_as(ElementType type, void* wire, float* values, std::size_t count);
    void finish();
    void clip(float* values, std::size_t count, float max_norm);
    void end();
    void replay(const std::function<void()>& launch);
    void await();
    void read(void* to, const void* from, std::size_t bytes);
    bool is_capturing() const { return steps_->is_capturing(group_->stream()); }
    bool register_memory(void* data, std::size_t bytes) {
        return steps_->register_memory(data, bytes);
    }
    void deregister_memory() { steps_->deregister_memory(); }

private:
    template <class Call>
    void perform(const Call& call);

    const std::shared_ptr<groups::Group> group_;  // its transport is used to the end
    NcclTransport& transport_;
    std::unique_ptr<Steps> steps_;
};

}  // namespace ddprun::nccl
