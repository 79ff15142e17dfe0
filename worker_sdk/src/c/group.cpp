// SPDX-License-Identifier: Apache-2.0
#include "ddprun/process_group.hpp"
#include "worker_sdk/src/c/guard.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct ddprun_group {
    ddprun::ProcessGroup group;
};

struct ddprun_work {
    ddprun::Work work;
};

namespace {

using ddprun::Backend;
using ddprun::ElementType;
using ddprun::Op;
using ddprun::c::guarded;
using ddprun::c::need;

static_assert(static_cast<int>(Backend::automatic) == DDPRUN_AUTOMATIC);
static_assert(static_cast<int>(Backend::cpu) == DDPRUN_CPU);
static_assert(static_cast<int>(Backend::loopback) == DDPRUN_LOOPBACK);
static_assert(static_cast<int>(Backend::gloo) == DDPRUN_GLOO);
static_assert(static_cast<int>(ElementType::float32) == DDPRUN_FLOAT32);
static_assert(static_cast<int>(ElementType::float64) == DDPRUN_FLOAT64);
static_assert(static_cast<int>(ElementType::float16) == DDPRUN_FLOAT16);
static_assert(static_cast<int>(ElementType::bfloat16) == DDPRUN_BFLOAT16);
static_assert(static_cast<int>(ElementType::int32) == DDPRUN_INT32);
static_assert(static_cast<int>(ElementType::int64) == DDPRUN_INT64);
static_assert(static_cast<int>(ElementType::uint8) == DDPRUN_UINT8);
static_assert(static_cast<int>(Op::sum) == DDPRUN_SUM);
static_assert(static_cast<int>(Op::average) == DDPRUN_AVERAGE);
static_assert(static_cast<int>(Op::min) == DDPRUN_MIN);
static_assert(static_cast<int>(Op::max) == DDPRUN_MAX);
static_assert(static_cast<int>(Op::product) == DDPRUN_PRODUCT);

/// C lets any number be an enumerator.
template <class To>
To checked(int number, To last, const char* name) {
    if (number < 0 || number > static_cast<int>(last))
        throw ddprun::UsageError(
            std::string{name} + " " + std::to_string(number) + ": expected 0 to " +
            std::to_string(static_cast<int>(last)));
    return static_cast<To>(number);
}

ElementType type_of(int number) {
    return checked(number, ElementType::uint8, "element type");
}

Op op_of(int number) {
    return checked(number, Op::product, "operation");
}

const ddprun::ProcessGroup& of(const ddprun_group* group) {
    need(group, "group");
    return group->group;
}

/// A buffer may be NULL only when nothing is in it.
void need_buffer(const void* buffer, std::size_t count, const char* name) {
    if (count > 0) need(buffer, name);
}

/// Waits here, or lets the caller do it.
void hand_over(ddprun::Work work, ddprun_work** handle) {
    if (handle)
        *handle = new ddprun_work{std::move(work)};
    else
        work.wait();
}

/// C frees by address; Memory knows how.
struct Allocations {
    std::mutex mutex;
    std::map<void*, ddprun::Memory> all;
};

/// Never destroyed: a program may free in its last moments.
Allocations& allocations() {
    static auto* const instance = new Allocations;
    return *instance;
}

}  // namespace

extern "C" {

int ddprun_group_create(
    const ddprun_world* world,
    const ddprun_store* store,
    ddprun_backend backend,
    int64_t timeout_ms,
    ddprun_group** group) {
    return guarded([&] {
        need(world, "world");
        need(group, "group");
        ddprun::ProcessGroup::Options options;
        options.backend = checked(backend, Backend::gloo, "backend");
        if (timeout_ms != 0) options.timeout = std::chrono::milliseconds{timeout_ms};
        const auto here = ddprun::World::from_c(*world);
        const auto meeting = store ? ddprun::Store::sharing(store) : ddprun::Store::connect(here);
        *group = new ddprun_group{ddprun::ProcessGroup::create(here, meeting, options)};
    });
}

int ddprun_group_create_sub(
    const ddprun_group* group, const int* ranks, size_t count, ddprun_group** sub_group) {
    return guarded([&] {
        need_buffer(ranks, count, "ranks");
        need(sub_group, "sub_group");
        *sub_group = new ddprun_group{of(group).sub_group(std::vector<int>(ranks, ranks + count))};
    });
}

void ddprun_group_free(ddprun_group* group) {
    delete group;
}

int ddprun_group_rank(const ddprun_group* group) {
    return group ? group->group.rank() : -1;
}

int ddprun_group_size(const ddprun_group* group) {
    return group ? group->group.size() : -1;
}

void ddprun_group_abort(ddprun_group* group) {
    guarded([&] { of(group).abort(); });
}

void* ddprun_allocate(const ddprun_group* group, size_t bytes) {
    void* address = nullptr;
    guarded([&] {
        auto memory = of(group).allocate(bytes);
        const std::lock_guard lock(allocations().mutex);
        void* const data = memory.data();
        if (data) allocations().all.emplace(data, std::move(memory));
        address = data;
    });
    return address;
}

void ddprun_deallocate(void* memory) {
    std::optional<ddprun::Memory> freed;  // outside of the lock
    const std::lock_guard lock(allocations().mutex);
    const auto found = allocations().all.find(memory);
    if (found == allocations().all.end()) return;
    freed = std::move(found->second);
    allocations().all.erase(found);
}

int ddprun_work_wait(ddprun_work* work, int64_t timeout_ms) {
    const std::unique_ptr<ddprun_work> owner(work);
    return guarded([&] {
        need(work, "work");
        if (timeout_ms == 0)
            work->work.wait();
        else
            work->work.wait(ddprun::Work::Clock::now() + std::chrono::milliseconds{timeout_ms});
    });
}

int ddprun_work_is_done(const ddprun_work* work) {
    return !work || work->work.is_done() ? 1 : 0;
}

int ddprun_all_reduce(
    ddprun_group* group,
    void* data,
    size_t count,
    ddprun_type type,
    ddprun_op op,
    ddprun_work** work) {
    return guarded([&] {
        need_buffer(data, count, "data");
        hand_over(of(group).all_reduce_raw(data, count, type_of(type), op_of(op)), work);
    });
}

int ddprun_reduce(
    ddprun_group* group,
    void* data,
    size_t count,
    ddprun_type type,
    int root,
    ddprun_op op,
    ddprun_work** work) {
    return guarded([&] {
        need_buffer(data, count, "data");
        hand_over(of(group).reduce_raw(data, count, type_of(type), root, op_of(op)), work);
    });
}

int ddprun_broadcast(
    ddprun_group* group, void* data, size_t count, ddprun_type type, int root, ddprun_work** work) {
    return guarded([&] {
        need_buffer(data, count, "data");
        hand_over(of(group).broadcast_raw(data, count, type_of(type), root), work);
    });
}

int ddprun_all_gather(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_work** work) {
    return guarded([&] {
        need_buffer(input, count, "input");
        need_buffer(output, count, "output");
        hand_over(of(group).all_gather_raw(input, output, count, type_of(type)), work);
    });
}

int ddprun_reduce_scatter(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_op op,
    ddprun_work** work) {
    return guarded([&] {
        need_buffer(input, count, "input");
        need_buffer(output, count, "output");
        hand_over(
            of(group).reduce_scatter_raw(input, output, count, type_of(type), op_of(op)), work);
    });
}

int ddprun_gather(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    int root,
    ddprun_work** work) {
    return guarded([&] {
        need_buffer(input, count, "input");
        hand_over(of(group).gather_raw(input, output, count, type_of(type), root), work);
    });
}

int ddprun_scatter(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    int root,
    ddprun_work** work) {
    return guarded([&] {
        need_buffer(output, count, "output");
        hand_over(of(group).scatter_raw(input, output, count, type_of(type), root), work);
    });
}

int ddprun_all_to_all(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_work** work) {
    return guarded([&] {
        need_buffer(input, count, "input");
        need_buffer(output, count, "output");
        hand_over(of(group).all_to_all_raw(input, output, count, type_of(type)), work);
    });
}

int ddprun_send(
    ddprun_group* group,
    const void* data,
    size_t count,
    ddprun_type type,
    int peer,
    ddprun_work** work) {
    return guarded([&] {
        need_buffer(data, count, "data");
        hand_over(of(group).send_raw(data, count, type_of(type), peer), work);
    });
}

int ddprun_recv(
    ddprun_group* group, void* data, size_t count, ddprun_type type, int peer, ddprun_work** work) {
    return guarded([&] {
        need_buffer(data, count, "data");
        hand_over(of(group).recv_raw(data, count, type_of(type), peer), work);
    });
}

int ddprun_barrier(ddprun_group* group, ddprun_work** work) {
    return guarded([&] { hand_over(of(group).barrier(), work); });
}

}  // extern "C"
