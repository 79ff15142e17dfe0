// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/c/group.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace {

using ddprun::ElementType;
using ddprun::Op;
using ddprun::c::guarded;
using ddprun::c::need;
using ddprun::c::of;
using ddprun::groups::Collective;
using ddprun::groups::Group;
using ddprun::groups::PartCounts;
using Kind = ddprun::groups::Collective::Kind;

static_assert(static_cast<int>(ElementType::float32) == DDPRUN_FLOAT32);
static_assert(static_cast<int>(ElementType::float64) == DDPRUN_FLOAT64);
static_assert(static_cast<int>(ElementType::float16) == DDPRUN_FLOAT16);
static_assert(static_cast<int>(ElementType::bfloat16) == DDPRUN_BFLOAT16);
static_assert(static_cast<int>(ElementType::int32) == DDPRUN_INT32);
static_assert(static_cast<int>(ElementType::int64) == DDPRUN_INT64);
static_assert(static_cast<int>(ElementType::uint8) == DDPRUN_UINT8);
static_assert(static_cast<int>(ElementType::int8) == DDPRUN_INT8);
static_assert(static_cast<int>(ElementType::uint32) == DDPRUN_UINT32);
static_assert(static_cast<int>(ElementType::uint64) == DDPRUN_UINT64);
static_assert(static_cast<int>(ElementType::boolean) == DDPRUN_BOOL);
static_assert(static_cast<int>(ElementType::float8_e4m3) == DDPRUN_FLOAT8_E4M3);
static_assert(static_cast<int>(ElementType::float8_e5m2) == DDPRUN_FLOAT8_E5M2);
static_assert(static_cast<int>(Op::sum) == DDPRUN_SUM);
static_assert(static_cast<int>(Op::average) == DDPRUN_AVERAGE);
static_assert(static_cast<int>(Op::min) == DDPRUN_MIN);
static_assert(static_cast<int>(Op::max) == DDPRUN_MAX);
static_assert(static_cast<int>(Op::product) == DDPRUN_PRODUCT);

Op op_of(ddprun_op number) {
    return ddprun::c::checked(number, Op::product, "operation");
}

Collective call_of(Kind kind, const void* input, void* data, size_t count, ddprun_type type) {
    Collective call;
    call.kind = kind;
    call.type = ddprun::c::checked(type, ElementType::float8_e5m2, "element type");
    call.input = input;
    call.data = data;
    call.count = count;
    return call;
}

/// Copies the counts: one number for each rank.
std::vector<size_t> list_of(ddprun_group* group, const size_t* counts, const char* name) {
    need(counts, name);
    return {counts, counts + of(group)->settings().world_size};
}

/// Launches the call that `make` returns, then waits for it or hands it to the caller.
template <class MakeCall>
int launch(ddprun_group* group, ddprun_work** work, const MakeCall& make) {
    return guarded([&] {
        const auto& on = of(group);
        const Collective call = make(on->settings().rank);
        if (work) {
            std::unique_ptr<ddprun_work> launched(new ddprun_work{on});
            on->launch(call, launched->ticket);
            *work = launched.release();
        } else {
            on->perform(call);
        }
    });
}

std::optional<Group::Clock::time_point> deadline_in(int64_t timeout_ms) {
    if (timeout_ms == 0) return {};
    const std::chrono::milliseconds timeout{timeout_ms};
    return Group::Clock::now() +
           std::clamp<std::chrono::milliseconds>(timeout, {}, ddprun::waiting_times::longest_wait);
}

}  // namespace

extern "C" {

int ddprun_work_wait(ddprun_work* work, int64_t timeout_ms) {
    const std::unique_ptr<ddprun_work> owner(work);
    return guarded([&] {
        need(work, "work");
        work->group->wait(work->ticket, deadline_in(timeout_ms));
    });
}

int ddprun_work_wait_in(ddprun_work* work, void* stream) {
    bool is_ordered = false;
    const int status = guarded([&] {
        need(work, "work");
        is_ordered = work->group->precede(work->ticket, stream);
    });
    if (!is_ordered) {
        const int waited = ddprun_work_wait(work, 0);
        return waited != DDPRUN_OK ? waited : status;
    }
    return guarded([&] {
        // The group does not keep itself alive: the memory has no handle to it.
        const auto group = std::exchange(work->group, nullptr);
        group->leave(
            work->ticket, {work, [](void* memory) { delete static_cast<ddprun_work*>(memory); }});
    });
}

int ddprun_work_is_done(const ddprun_work* work) {
    return !work || work->group->is_done(work->ticket) ? 1 : 0;
}

int ddprun_all_reduce(
    ddprun_group* group,
    void* data,
    size_t count,
    ddprun_type type,
    ddprun_op op,
    ddprun_work** work) {
    return launch(group, work, [&](int) {
        auto call = call_of(Kind::all_reduce, nullptr, data, count, type);
        call.op = op_of(op);
        return call;
    });
}

int ddprun_all_reduce_to(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_op op,
    ddprun_work** work) {
    return launch(group, work, [&](int) {
        if (count > 0) need(input, "input");
        auto call = call_of(Kind::all_reduce, input, output, count, type);
        call.op = op_of(op);
        return call;
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
    return launch(group, work, [&](int) {
        auto call = call_of(Kind::reduce, nullptr, data, count, type);
        call.root = root;
        call.op = op_of(op);
        return call;
    });
}

int ddprun_broadcast(
    ddprun_group* group, void* data, size_t count, ddprun_type type, int root, ddprun_work** work) {
    return launch(group, work, [&](int) {
        auto call = call_of(Kind::broadcast, nullptr, data, count, type);
        call.root = root;
        return call;
    });
}

int ddprun_all_gather(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_work** work) {
    return launch(
        group, work, [&](int) { return call_of(Kind::all_gather, input, output, count, type); });
}

int ddprun_reduce_scatter(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_op op,
    ddprun_work** work) {
    return launch(group, work, [&](int) {
        auto call = call_of(Kind::reduce_scatter, input, output, count, type);
        call.op = op_of(op);
        return call;
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
    return launch(group, work, [&](int) {
        auto call = call_of(Kind::gather, input, output, count, type);
        call.root = root;
        return call;
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
    return launch(group, work, [&](int) {
        auto call = call_of(Kind::scatter, input, output, count, type);
        call.root = root;
        return call;
    });
}

int ddprun_all_to_all(
    ddprun_group* group,
    const void* input,
    void* output,
    size_t count,
    ddprun_type type,
    ddprun_work** work) {
    return launch(
        group, work, [&](int) { return call_of(Kind::all_to_all, input, output, count, type); });
}

int ddprun_all_gather_v(
    ddprun_group* group,
    const void* input,
    void* output,
    const size_t* counts,
    ddprun_type type,
    ddprun_work** work) {
    return launch(group, work, [&](int own_rank) {
        auto received = list_of(group, counts, "counts");
        auto call = call_of(Kind::all_gather_v, input, output, 0, type);
        const auto own = received[static_cast<size_t>(own_rank)];
        call.counts = std::make_shared<PartCounts>(PartCounts{{own}, std::move(received)});
        return call;
    });
}

int ddprun_all_to_all_v(
    ddprun_group* group,
    const void* input,
    const size_t* input_counts,
    void* output,
    const size_t* output_counts,
    ddprun_type type,
    ddprun_work** work) {
    return launch(group, work, [&](int) {
        auto call = call_of(Kind::all_to_all_v, input, output, 0, type);
        call.counts = std::make_shared<PartCounts>(PartCounts{
            list_of(group, input_counts, "input_counts"),
            list_of(group, output_counts, "output_counts")});
        return call;
    });
}

int ddprun_send(
    ddprun_group* group,
    const void* data,
    size_t count,
    ddprun_type type,
    int peer,
    ddprun_work** work) {
    return launch(group, work, [&](int own_rank) {
        auto call = call_of(Kind::send, data, nullptr, count, type);
        call.root = own_rank;
        call.receiver = peer;
        return call;
    });
}

int ddprun_recv(
    ddprun_group* group, void* data, size_t count, ddprun_type type, int peer, ddprun_work** work) {
    return launch(group, work, [&](int own_rank) {
        auto call = call_of(Kind::recv, nullptr, data, count, type);
        call.root = peer;
        call.receiver = own_rank;
        return call;
    });
}

int ddprun_barrier(ddprun_group* group, ddprun_work** work) {
    return launch(group, work, [](int) { return Collective{}; });
}

}  // extern "C"
