// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "ddprun/world.hpp"
#include "worker_sdk/src/groups/failure_monitor.hpp"
#include "worker_sdk/src/transports/nccl/polling.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <variant>

namespace ddprun::nccl {

/// The part of its group that a session uses: the keys of the rendezvous in the store, and whether
/// the group has failed. The failure monitor keeps the group's error. Any thread.
class GroupContext {
public:
    struct Settings {
        World world;
        Store store;
        /// The prefix of the group's keys in the store.
        std::string prefix;
        /// The timeout of a collective and of opening the session.
        std::chrono::milliseconds timeout{};
        std::shared_ptr<groups::FailureMonitor> monitor;
    };

    explicit GroupContext(Settings settings);
    GroupContext(const GroupContext&) = delete;
    GroupContext& operator=(const GroupContext&) = delete;

    int rank() const { return settings_.world.rank; }
    int world_size() const { return settings_.world.world_size; }
    std::chrono::milliseconds timeout() const { return settings_.timeout; }

    /// A thread's wait for the peers, while the session is opened or during a collective.
    class Wait {
    public:
        explicit Wait(GroupContext& context);
        Wait(
            GroupContext& context,
            const groups::Collective& collective,
            std::chrono::milliseconds timeout);
        Wait(const Wait&) = delete;
        Wait& operator=(const Wait&) = delete;

        /// Valid as long as this object.
        Deadline deadline();
        /// Requires: the collective has no error.
        void end();

    private:
        friend class GroupContext;
        bool has_failed();

        GroupContext& context_;
        const groups::FailureMonitor::Wait wait_;
        const Clock::time_point until_;
        bool is_monitored_ = false;
    };

    /// Whether the group has failed, for a thread outside these waits.
    bool has_failed();
    groups::Outcome set(const std::string& key, const std::string& value, const Wait& wait);
    /// Waits for the key and returns its value.
    std::variant<std::string, groups::GroupError> get(const std::string& key, Wait& wait);

    /// Returns the group's error, which may have caused this one. A lost peer is named if a source
    /// reports its name soon.
    groups::GroupError explain(groups::GroupError error);
    /// The same for a collective: after a timeout it also names the missing ranks.
    groups::GroupError explain(
        groups::GroupError error,
        const groups::Collective& collective,
        std::chrono::milliseconds timeout);
    void note_abort() { settings_.monitor->note_abort(); }

private:
    template <class Call>
    groups::Outcome guarded(const Wait& wait, const Call& call);
    bool await_key(const std::string& name, Wait& wait);

    Settings settings_;
    const Clock::time_point begun_at_;
};

}  // namespace ddprun::nccl
