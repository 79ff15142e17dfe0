// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/process_group.hpp"
#include "ddprun/throw_error.hpp"
#include "ddprun/world.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace ddprun {

/// None: every rank begins as usual, with its checkpoint for example. Otherwise the round follows
/// another one in which workers kept their state: before anything else, `rank` sends its state to
/// all (a broadcast of parameters, optimizer and counters), new processes included.
///
/// Throws Error in a new process that would be the source: the worker that had the state ended at
/// the last moment. End the program then: another round follows.
inline std::optional<StateSource> state_source() {
    StateSource source;
    int exists = 0;
    throw_if(ddprun_state_source(&exists, &source.rank, &source.step));
    if (exists == 0) return std::nullopt;
    return source;
}

/// Lets this process go on in the next round when another worker has failed, instead of being
/// stopped and started again (docs/recovery.md). Create one at the start of the program, on every
/// rank:
///
///   ddprun::Recovery recovery;
///   auto world = ddprun::World::from_environment();
///   for (;;) try {
///       auto store = ddprun::Store::connect(world);
///       auto group = ddprun::ProcessGroup::create(world, store);
///       recovery.end_with_round(group);
///       if (auto source = ddprun::state_source()) receive_state(group, *source);
///       train(group);
///       break;
///   } catch (const ddprun::Error&) {
///       world = recovery.next_round(step, is_clean);
///   }
///
/// The state counts as clean unless a step was being applied: on a CPU errors arise in collectives,
/// which come before. Objects of the old round (group, store, Reducer) must be gone before
/// `next_round`. Under another launcher, or alone, `next_round` throws.
///
/// Any thread; `next_round` changes the environment of the process.
class Recovery {
public:
    Recovery() { throw_if(ddprun_recovery_create(&handle_)); }
    Recovery(Recovery&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Recovery& operator=(Recovery&&) = delete;
    ~Recovery() { ddprun_recovery_free(handle_); }

    /// The agent of this process holds workers.
    bool is_possible() const { return ddprun_recovery_is_possible(handle_) != 0; }

    /// Aborts the group when its round is over on other ranks, so that calls in progress fail.
    void end_with_round(const ProcessGroup& group) {
        throw_if(ddprun_recovery_end_with_round(handle_, group.handle()));
    }

    /// Waits for the end of this process's round, reports to the agent which steps the state of
    /// this rank contains, and waits for the next round. `committed`: the last step that the state
    /// contains completely; none: there is no such step. `is_clean`: it has not changed since.
    ///
    /// Throws Error when the round is not over within `timeout` on other ranks, when this process
    /// is being stopped, or when it has no agent that holds workers: end the program then.
    World next_round(
        std::optional<std::uint64_t> committed,
        bool is_clean = true,
        std::chrono::milliseconds timeout = std::chrono::seconds{60}) {
        ddprun_world world{};
        world.size = sizeof world;
        throw_if(ddprun_recovery_next_round(
            handle_,
            committed ? static_cast<std::int64_t>(*committed) : -1,
            is_clean ? 1 : 0,
            timeout.count(),
            &world));
        return World::from_c(world);
    }

private:
    ddprun_recovery* handle_ = nullptr;
};

}  // namespace ddprun
