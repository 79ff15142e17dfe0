// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/nccl_transport.hpp"

#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/transports/nccl/calls.hpp"
#include "worker_sdk/src/transports/nccl/device_choice.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <stdlib.h>

#include <exception>
#include <utility>

namespace ddprun::nccl {

namespace {

using groups::Collective;
using groups::GroupError;
using groups::Outcome;
using groups::Transport;

std::variant<const Device*, GroupError> device_of(Libraries& libraries, const World& world) {
    auto counted = libraries.device_count();
    if (auto* error = std::get_if<GroupError>(&counted)) return *error;
    auto chosen = choose_device(
        std::get<int>(counted),
        world.local_rank,
        world.local_world_size,
        ::getenv(environment::share_gpu) != nullptr);
    if (auto* error = std::get_if<GroupError>(&chosen)) return *error;
    return libraries.device(std::get<DeviceChoice>(chosen).first);
}

std::variant<std::unique_ptr<Session>, GroupError> open_session(
    const Libraries& libraries,
    const Device& device,
    GroupContext& context,
    const std::optional<SplitOff>& split) {
    try {
        return Session::open(libraries.nccl, device, context, split);
    } catch (const std::exception& thrown) {  // no more threads, for example
        return GroupError{GroupError::Kind::other, thrown.what()};
    }
}

}  // namespace

std::variant<std::unique_ptr<Transport>, GroupError> NcclTransport::open(
    Libraries& libraries,
    const GroupContext::Settings& settings,
    const std::optional<SplitOff>& split) {
    auto context = std::make_unique<GroupContext>(settings);
    const auto explained = [&](GroupError error) {
        error = context->explain(std::move(error));
        // All ranks report the same mismatch.
        if (error.kind != GroupError::Kind::mismatch && error.kind != GroupError::Kind::usage)
            error.text = groups::text_of({context->rank()}) +
                         " could not meet its peers over NCCL: " + error.text;
        return error;
    };
    auto found = device_of(libraries, settings.world);
    if (auto* error = std::get_if<GroupError>(&found)) return explained(std::move(*error));
    const auto& device = *std::get<const Device*>(found);
    auto session = open_session(libraries, device, *context, split);
    if (auto* error = std::get_if<GroupError>(&session)) return explained(std::move(*error));
    return std::make_unique<NcclTransport>(
        libraries,
        device,
        std::move(context),
        std::get<std::unique_ptr<Session>>(std::move(session)));
}

NcclTransport::NcclTransport(
    const Libraries& libraries,
    const Device& device,
    std::unique_ptr<GroupContext> context,
    std::unique_ptr<Session> session)
    : nccl_version_(libraries.nccl.version),
      context_(std::move(context)),
      session_(std::move(session)),
      arena_(std::make_shared<DeviceArena>(
          libraries.nccl,
          device,
          session_->hang_watchdog(),
          session_->timeout() + 3 * waiting_times::abort_timeout)) {}

Outcome NcclTransport::refusal(const Collective& collective) const {
    auto why = unsupported(collective, nccl_version_);
    if (!why) return {};
    return GroupError{GroupError::Kind::usage, std::move(*why)};
}

Outcome NcclTransport::follow(const Collective& collective) {
    auto error = session_->follow(collective);
    if (error) return explain(std::move(*error));
    return {};
}

Outcome NcclTransport::precede(const Collective& collective, void* stream) {
    auto error = session_->precede(collective, stream);
    if (error) return explain(std::move(*error));
    return {};
}

std::variant<bool, GroupError> NcclTransport::begin(const Collective& collective) {
    auto begun = session_->begin(collective);
    if (auto* error = std::get_if<GroupError>(&begun)) return explain(std::move(*error));
    return begun;
}

Outcome NcclTransport::run(const Collective& collective, std::chrono::milliseconds timeout) {
    auto error = session_->run(collective, timeout);
    if (error) return context_->explain(std::move(*error), collective, timeout);
    return {};
}

std::variant<Communicators::Comm, GroupError> NcclTransport::split(int color, int key) {
    std::variant<Communicators::Comm, GroupError> part;
    auto error = groups::caught([&]() -> Outcome {
        part = session_->split(color, key);
        if (auto* failed = std::get_if<GroupError>(&part)) return std::move(*failed);
        return {};
    });
    if (error) return explain(std::move(*error));
    return part;
}

void NcclTransport::abort() {
    context_->note_abort();
    session_->abort();
}

}  // namespace ddprun::nccl
