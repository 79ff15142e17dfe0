// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/c/group.hpp"

#include "worker_sdk/src/groups/memory.hpp"
#include "worker_sdk/src/transports/create_group.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace {

using ddprun::Backend;
using ddprun::c::guarded;
using ddprun::c::known_part;
using ddprun::c::need;
using ddprun::c::of;
using ddprun::groups::Group;
using ddprun::groups::GroupError;

static_assert(static_cast<int>(Backend::automatic) == DDPRUN_AUTOMATIC);
static_assert(static_cast<int>(Backend::cpu) == DDPRUN_CPU);
static_assert(static_cast<int>(Backend::loopback) == DDPRUN_LOOPBACK);
static_assert(static_cast<int>(Backend::nccl) == DDPRUN_NCCL);

std::shared_ptr<Group> group_of_world(
    const ddprun::World& world,
    const ddprun_store* store,
    Backend backend,
    std::chrono::milliseconds timeout) {
    auto own_store = store ? ddprun::Store::sharing(store) : ddprun::Store::connect(world);
    return create_group(
        ddprun::groups::config_of_world(world, std::move(own_store), backend, timeout));
}

}  // namespace

extern "C" {

int ddprun_group_create(
    const ddprun_world* world,
    const ddprun_store* store,
    const ddprun_group_options* options,
    ddprun_group** group) {
    return guarded([&] {
        const auto in_world = known_part(world, "world");
        const auto chosen = options ? known_part(options, "options") : ddprun_group_options{};
        need(group, "group");
        const auto timeout = chosen.timeout_ms == 0 ? ddprun::waiting_times::default_group_timeout
                                                    : std::chrono::milliseconds{chosen.timeout_ms};
        *group = new ddprun_group{group_of_world(
            ddprun::World::from_c(in_world),
            store,
            ddprun::c::checked(chosen.backend, Backend::nccl, "backend"),
            timeout)};
    });
}

int ddprun_group_create_sub(
    const ddprun_group* group, const int* ranks, size_t count, ddprun_group** sub_group_made) {
    return guarded([&] {
        if (count > 0) need(ranks, "ranks");
        need(sub_group_made, "sub_group");
        *sub_group_made = new ddprun_group{
            ddprun::groups::sub_group(*of(group), std::vector<int>(ranks, ranks + count))};
    });
}

int ddprun_group_split(const ddprun_group* group, int color, int key, ddprun_group** part) {
    return guarded([&] {
        need(part, "part");
        *part = nullptr;
        if (auto made = ddprun::groups::split(*of(group), color, key))
            *part = new ddprun_group{std::move(made)};
    });
}

void ddprun_group_free(ddprun_group* group) {
    delete group;
}

int ddprun_group_rank(const ddprun_group* group) {
    return group ? group->group->settings().rank : -1;
}

int ddprun_group_size(const ddprun_group* group) {
    return group ? group->group->settings().world_size : -1;
}

ddprun_backend ddprun_group_backend(const ddprun_group* group) {
    return group ? static_cast<int>(group->group->settings().backend) : -1;
}

void ddprun_group_abort(ddprun_group* group) {
    guarded([&] {
        GroupError error{GroupError::Kind::peer_lost, "the group was aborted on this rank"};
        error.ranks = {of(group)->settings().rank};
        of(group)->abort(std::move(error));
    });
}

int ddprun_group_device(const ddprun_group* group) {
    return group ? group->group->device() : -1;
}

int ddprun_group_use_stream(ddprun_group* group, void* stream) {
    return guarded([&] { of(group)->use_stream(stream); });
}

void* ddprun_allocate(const ddprun_group* group, size_t bytes) {
    void* memory = nullptr;
    guarded([&] {
        if (bytes > 0) memory = ddprun::groups::allocate(of(group)->arena(), bytes);
    });
    return memory;
}

void ddprun_deallocate(void* memory) {
    ddprun::groups::deallocate(memory);
}

}  // extern "C"
