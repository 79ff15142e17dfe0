// SPDX-License-Identifier: Apache-2.0
#include "ddprun/process_group.hpp"

#include "worker_sdk/src/groups/arena.hpp"
#include "worker_sdk/src/groups/founding.hpp"
#include "worker_sdk/src/groups/group.hpp"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

namespace ddprun {

using groups::Collective;

namespace {

using Kind = Collective::Kind;

void check_world(const World& world, const ProcessGroup::Options& options) {
    if (world.world_size < 1 || world.rank < 0 || world.rank >= world.world_size)
        throw UsageError(
            "rank " + std::to_string(world.rank) + " of " + std::to_string(world.world_size) +
            ": there is no such rank");
    if (options.backend == Backend::loopback && world.world_size > 1)
        throw UsageError(
            "the loopback backend is for a world of one, this one has " +
            std::to_string(world.world_size));
    if (options.timeout.count() <= 0) throw UsageError("a group needs a timeout above zero");
}

Collective call_of(Kind kind, const void* input, void* data, std::size_t count, ElementType type) {
    Collective call;
    call.kind = kind;
    call.type = type;
    call.input = input;
    call.data = data;
    call.count = count;
    return call;
}

}  // namespace

Work::Work(std::shared_ptr<groups::Group> group, std::shared_ptr<groups::Ticket> ticket)
    : group_(std::move(group)),
      ticket_(std::move(ticket)) {}

Work::Work(Work&&) noexcept = default;

Work& Work::operator=(Work&& other) noexcept {
    Work before(std::move(*this));  // waits in its destructor
    group_ = std::move(other.group_);
    ticket_ = std::move(other.ticket_);
    return *this;
}

Work::~Work() {
    if (!ticket_) return;
    try {
        group_->wait(ticket_, {});
    } catch (const Error&) {
        // The group is dead and tells whoever calls it next.
    }
}

bool Work::is_done() const {
    return !ticket_ || group_->is_done(*ticket_);
}

void Work::wait() {
    if (ticket_) group_->wait(ticket_, {});
}

void Work::wait(Clock::time_point deadline) {
    if (ticket_) group_->wait(ticket_, deadline);
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      arena_(std::move(other.arena_)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(arena_, other.arena_);
    return *this;
}

Memory::~Memory() {
    if (!data_) return;
    if (arena_)
        arena_->give_back(data_, size_);
    else
        ::munmap(data_, size_);
}

ProcessGroup ProcessGroup::create(
    const World& world, const Store& given_store, const Options& options) {
    check_world(world, options);
    if (world.world_size == 1) return groups::Group::create_alone();
    if (!world.is_launched())
        throw UsageError("a world of several ranks needs a store: set master_addr and master_port");

    Store store = given_store;
    auto prefix = groups::prefix_of_next_group(world, store);
    return groups::found({world, std::move(store), std::move(prefix), options});
}

ProcessGroup ProcessGroup::create(const World& world, const Store& store) {
    return create(world, store, Options{});
}

ProcessGroup ProcessGroup::create(const World& world) {
    return create(world, Store::connect(world), Options{});
}

ProcessGroup::ProcessGroup(std::shared_ptr<groups::Group> group) : group_(std::move(group)) {}

ProcessGroup::ProcessGroup(const ProcessGroup&) = default;
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(const ProcessGroup&) = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const {
    return group_->settings().rank;
}

int ProcessGroup::size() const {
    return group_->settings().world_size;
}

Backend ProcessGroup::backend() const {
    return group_->settings().backend;
}

Memory ProcessGroup::allocate(std::size_t bytes) const {
    Memory memory;
    if (bytes == 0) return memory;
    memory.arena_ = group_->arena();
    if (memory.arena_) memory.data_ = memory.arena_->take(bytes);
    if (!memory.data_) {
        memory.arena_ = nullptr;
        void* data =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) throw std::bad_alloc();
        memory.data_ = data;
    }
    memory.size_ = bytes;
    return memory;
}

ProcessGroup ProcessGroup::sub_group(const std::vector<int>& ranks) const {
    if (ranks == std::vector<int>{rank()}) return groups::Group::create_alone();
    return groups::found(group_->founding_of(ranks));
}

void ProcessGroup::abort() const {
    groups::Trouble trouble{groups::Trouble::Kind::peer_lost, "the group was aborted on this rank"};
    trouble.ranks = {rank()};
    group_->abort(std::move(trouble));
}

Work ProcessGroup::barrier() const {
    return {group_, group_->launch({})};
}

Work ProcessGroup::all_reduce_raw(void* data, std::size_t count, ElementType type, Op op) const {
    auto call = call_of(Kind::all_reduce, nullptr, data, count, type);
    call.op = op;
    return {group_, group_->launch(call)};
}

Work ProcessGroup::reduce_raw(
    void* data, std::size_t count, ElementType type, int root, Op op) const {
    auto call = call_of(Kind::reduce, nullptr, data, count, type);
    call.root = root;
    call.op = op;
    return {group_, group_->launch(call)};
}

Work ProcessGroup::broadcast_raw(void* data, std::size_t count, ElementType type, int root) const {
    auto call = call_of(Kind::broadcast, nullptr, data, count, type);
    call.root = root;
    return {group_, group_->launch(call)};
}

Work ProcessGroup::all_gather_raw(
    const void* input, void* output, std::size_t count, ElementType type) const {
    return {group_, group_->launch(call_of(Kind::all_gather, input, output, count, type))};
}

Work ProcessGroup::reduce_scatter_raw(
    const void* input, void* output, std::size_t count, ElementType type, Op op) const {
    auto call = call_of(Kind::reduce_scatter, input, output, count, type);
    call.op = op;
    return {group_, group_->launch(call)};
}

Work ProcessGroup::gather_raw(
    const void* input, void* output, std::size_t count, ElementType type, int root) const {
    auto call = call_of(Kind::gather, input, output, count, type);
    call.root = root;
    return {group_, group_->launch(call)};
}

Work ProcessGroup::scatter_raw(
    const void* input, void* output, std::size_t count, ElementType type, int root) const {
    auto call = call_of(Kind::scatter, input, output, count, type);
    call.root = root;
    return {group_, group_->launch(call)};
}

Work ProcessGroup::all_to_all_raw(
    const void* input, void* output, std::size_t count, ElementType type) const {
    return {group_, group_->launch(call_of(Kind::all_to_all, input, output, count, type))};
}

Work ProcessGroup::send_raw(const void* data, std::size_t count, ElementType type, int peer) const {
    auto call = call_of(Kind::send, data, nullptr, count, type);
    call.root = rank();
    call.receiver = peer;
    return {group_, group_->launch(call)};
}

Work ProcessGroup::recv_raw(void* data, std::size_t count, ElementType type, int peer) const {
    auto call = call_of(Kind::recv, nullptr, data, count, type);
    call.root = peer;
    call.receiver = rank();
    return {group_, group_->launch(call)};
}

}  // namespace ddprun
