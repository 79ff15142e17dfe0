// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/recovery/recovery.hpp"

#include "worker_sdk/src/c/group.hpp"
#include "worker_sdk/src/c/guard.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/world/environment.hpp"

#include <stdlib.h>

#include <chrono>
#include <memory>
#include <optional>

struct ddprun_recovery {
    ddprun::RecoveryChannel channel;
};

namespace c = ddprun::c;

extern "C" int ddprun_recovery_create(ddprun_recovery** recovery) {
    return c::guarded([&] {
        c::need(recovery, "recovery");
        *recovery =
            new ddprun_recovery{ddprun::RecoveryChannel{::getenv(ddprun::environment::channel)}};
    });
}

extern "C" void ddprun_recovery_free(ddprun_recovery* recovery) {
    delete recovery;
}

extern "C" int ddprun_recovery_is_possible(const ddprun_recovery* recovery) {
    return recovery != nullptr && recovery->channel.is_possible() ? 1 : 0;
}

extern "C" int ddprun_recovery_end_with_round(ddprun_recovery* recovery, ddprun_group* group) {
    return c::guarded([&] {
        c::need(recovery, "recovery");
        recovery->channel.end_with_round(c::of(group));
    });
}

extern "C" int ddprun_recovery_next_round(
    ddprun_recovery* recovery,
    int64_t committed,
    int is_clean,
    int64_t timeout_ms,
    ddprun_world* world) {
    return c::guarded([&] {
        c::need(recovery, "recovery");
        c::known_size(world, "world");
        const auto step =
            committed < 0 ? std::nullopt : std::optional{static_cast<std::uint64_t>(committed)};
        recovery->channel.next_round(step, is_clean != 0, std::chrono::milliseconds{timeout_ms});
        const auto next =
            ddprun::environment::read_world([](const char* name) { return ::getenv(name); });
        c::fill(world, "world", next.to_c());
    });
}

extern "C" int ddprun_state_source(int* exists, int* rank, uint64_t* step) {
    return c::guarded([&] {
        c::need(exists, "exists");
        const auto lookup = [](const char* name) { return ::getenv(name); };
        const auto source = ddprun::environment::read_state_source(lookup);
        *exists = source ? 1 : 0;
        if (!source) return;
        const bool is_own = ddprun::environment::read_world(lookup).rank == source->rank;
        if (is_own && !ddprun::RecoveryChannel::has_gone_on())
            throw ddprun::Error(
                "this rank would give its state to all others, and it is a new process: the worker "
                "that had the state has ended");
        if (rank) *rank = source->rank;
        if (step) *step = source->step;
    });
}
