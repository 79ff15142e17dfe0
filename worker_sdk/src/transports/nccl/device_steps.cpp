// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/device_steps.hpp"

#include <exception>
#include <utility>
#include <variant>

namespace ddprun::nccl {

namespace {

using groups::Collective;
using groups::GroupError;
using groups::Outcome;

Steps::Pointer on_device(const void* pointer) {
    return reinterpret_cast<Steps::Pointer>(pointer);
}

}  // namespace

std::unique_ptr<DeviceSteps> DeviceSteps::open(const std::shared_ptr<groups::Group>& group) {
    auto* const transport = dynamic_cast<NcclTransport*>(group->transport().get());
    return transport ? std::make_unique<DeviceSteps>(group, *transport) : nullptr;
}

DeviceSteps::DeviceSteps(std::shared_ptr<groups::Group> group, NcclTransport& transport)
    : group_(std::move(group)),
      transport_(transport) {
    perform([&]() -> Outcome {
        auto opened = Steps::open(transport_.session());
        if (auto* error = std::get_if<GroupError>(&opened)) return std::move(*error);
        steps_ = std::get<std::unique_ptr<Steps>>(std::move(opened));
        return {};
    });
}

/// An exception (out of memory, for example) ends the group too.
template <class Call>
void DeviceSteps::perform(const Call& call) {
    group_->perform_beside_queue([&]() -> Outcome {
        auto error = groups::caught(call);
        if (error) return transport_.explain(std::move(*error));
        return {};
    });
}

void DeviceSteps::zero(void* data, std::size_t bytes) {
    perform([&] { return steps_->zero(group_->stream(), on_device(data), bytes); });
}

void DeviceSteps::copy(void* to, const void* from, std::size_t bytes) {
    perform([&] { return steps_->copy(group_->stream(), on_device(to), on_device(from), bytes); });
}

void DeviceSteps::average(float* values, std::size_t count) {
    Collective collective;
    collective.kind = Collective::Kind::all_reduce;
    collective.type = ElementType::float32;
    collective.op = Op::average;
    collective.data = values;
    collective.count = count;
    perform([&] { return steps_->reduce(group_->stream(), collective, 0); });
}

void DeviceSteps::average_as(ElementType type, void* wire, float* values, std::size_t count) {
    Collective collective;
    collective.kind = Collective::Kind::all_reduce;
    collective.type = type;
    collective.op = Op::sum;
    collective.data = wire;
    collective.count = count;
    perform([&] { return steps_->reduce(group_->stream(), collective, on_device(values)); });
}

void DeviceSteps::finish() {
    perform([&] { return steps_->finish(group_->stream()); });
}

void DeviceSteps::clip(float* values, std::size_t count, float max_norm) {
    perform([&] { return steps_->clip(group_->stream(), on_device(values), count, max_norm); });
}

void DeviceSteps::end() {
    perform([&] { return steps_->end(group_->stream()); });
}

void DeviceSteps::replay(const std::function<void()>& launch) {
    std::exception_ptr failure;
    const auto run = [&] {
        try {
            launch();
        } catch (...) {  // the program's own error: the group does not end
            failure = std::current_exception();
        }
    };
    perform([&] { return steps_->replay(group_->stream(), run); });
    if (failure) std::rethrow_exception(failure);
}

void DeviceSteps::await() {
    perform([&] { return steps_->await(group_->stream()); });
}

void DeviceSteps::read(void* to, const void* from, std::size_t bytes) {
    perform([&] { return steps_->read(group_->stream(), to, on_device(from), bytes); });
}

}  // namespace ddprun::nccl
