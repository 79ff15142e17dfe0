// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/transport.hpp"
#include "worker_sdk/src/transports/nccl/device_arena.hpp"
#include "worker_sdk/src/transports/nccl/group_context.hpp"
#include "worker_sdk/src/transports/nccl/libraries.hpp"
#include "worker_sdk/src/transports/nccl/session.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace ddprun::nccl {

/// A session as a group's transport: its errors are explained by the group's failure detector.
class NcclTransport : public groups::Transport {
public:
    /// Chooses this rank's GPU and connects to all peers, or uses a part that was split off.
    /// Blocks.
    static std::variant<std::unique_ptr<groups::Transport>, groups::GroupError> open(
        Libraries& libraries,
        const GroupContext::Settings& settings,
        const std::optional<SplitOff>& split);

    NcclTransport(
        const Libraries& libraries,
        const Device& device,
        std::unique_ptr<GroupContext> context,
        std::unique_ptr<Session> session);

    groups::Outcome refusal(const groups::Collective& collective) const override;
    groups::Outcome follow(const groups::Collective& collective) override;
    groups::Outcome precede(const groups::Collective& collective, void* stream) override;
    std::variant<bool, groups::GroupError> begin(const groups::Collective& collective) override;
    groups::Outcome run(
        const groups::Collective& collective, std::chrono::milliseconds timeout) override;
    void abort() override;
    bool is_broken() override { return session_->is_broken(); }
    bool is_for_any_thread() const override { return true; }
    int device() const override { return session_->device().ordinal(); }
    std::shared_ptr<groups::Arena> arena() override { return arena_; }

    /// `Session::split`, for sub-groups.
    std::variant<Communicators::Comm, groups::GroupError> split(int color, int key);
    /// For DeviceSteps; its errors are explained by `explain`.
    Session& session() { return *session_; }
    groups::GroupError explain(groups::GroupError error) {
        return context_->explain(std::move(error));
    }

private:
    const int nccl_version_;
    const std::unique_ptr<GroupContext> context_;
    const std::unique_ptr<Session> session_;
    const std::shared_ptr<DeviceArena> arena_;
};

}  // namespace ddprun::nccl
