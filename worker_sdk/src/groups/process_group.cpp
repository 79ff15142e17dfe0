// SPDX-License-Identifier: Apache-2.0
#include "ddprun/process_group.hpp"

#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/groups/plugin.hpp"
#include "worker_sdk/src/store/local_address.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace ddprun {

using groups::Collective;

namespace {

/// Everything the SDK writes into the store for one group. A round's store is fresh, but a
/// launcher that keeps one store for several rounds must not let them meet.
std::string prefix_of(const World& world, Store& store) {
    const auto round = "ddprun/" + world.incarnation + "/" + std::to_string(world.round) + "/" +
                       std::to_string(world.restart_count) + "/";
    // Which group of this rank it is. Ranks create their groups in the same order.
    const auto number = store.add(round + "groups/" + std::to_string(world.rank), 1);
    return round + "group" + std::to_string(number) + "/";
}

std::string address_of(const World& world, const Store& store) {
    auto address = world.node_addr.empty() ? store.local_address() : world.node_addr;
    if (address.empty())
        throw UsageError(
            std::string{"cannot tell under which address the peers reach this machine: set "} +
            environment::node_addr);
    if (!is_address_of_this_machine(address))
        throw UsageError(
            std::string{environment::node_addr} + "=" + address +
            " is not an address of this machine (ddprun --local-addr sets it)");
    return address;
}

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
        group_->wait(*ticket_, {});
    } catch (const Error&) {
        // The group is dead and tells whoever calls it next.
    }
}

bool Work::is_done() const {
    return !ticket_ || group_->is_done(*ticket_);
}

void Work::wait() {
    if (ticket_) group_->wait(*ticket_, {});
}

void Work::wait(Clock::time_point deadline) {
    if (ticket_) group_->wait(*ticket_, deadline);
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

Memory::~Memory() {
    if (data_) ::munmap(data_, size_);
}

ProcessGroup ProcessGroup::create(
    const World& world, const Store& given_store, const Options& options) {
    check_world(world, options);
    if (world.world_size == 1) return groups::Group::create_alone();
    if (!world.is_launched())
        throw UsageError("a world of several ranks needs a store: set master_addr and master_port");

    auto loaded = groups::load_plugin("libddprun_gloo.so");
    if (const auto* trouble = std::get_if<groups::Trouble>(&loaded))
        throw UsageError(
            "the cpu backend is not available (built without Gloo?): " + trouble->text);
    const auto& plugin = *std::get<const DdprunPlugin*>(loaded);

    Store store = given_store;
    const auto prefix = prefix_of(world, store);
    groups::PluginSettings settings{
        world.rank,
        world.world_size,
        address_of(world, store),
        store,
        prefix + "gloo/",
        Work::Clock::now() + options.timeout};
    return groups::Group::create(
        {world.rank, world.world_size, Backend::cpu, options.timeout},
        [&plugin, settings] { return groups::open_plugin_transport(plugin, settings); },
        std::make_unique<groups::MismatchWatch>(store, prefix, world.rank));
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
    if (bytes == 0) return {};
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    return {data, bytes};
}

Work ProcessGroup::barrier() const {
    return {group_, group_->launch({})};
}

Work ProcessGroup::all_reduce_raw(void* data, std::size_t count, ElementType type, Op op) const {
    Collective collective;
    collective.kind = Collective::Kind::all_reduce;
    collective.type = type;
    collective.op = op;
    collective.data = data;
    collective.count = count;
    return {group_, group_->launch(collective)};
}

Work ProcessGroup::broadcast_raw(void* data, std::size_t count, ElementType type, int root) const {
    Collective collective;
    collective.kind = Collective::Kind::broadcast;
    collective.type = type;
    collective.root = root;
    collective.data = data;
    collective.count = count;
    return {group_, group_->launch(collective)};
}

Work ProcessGroup::all_gather_raw(
    const void* input, void* output, std::size_t count, ElementType type) const {
    Collective collective;
    collective.kind = Collective::Kind::all_gather;
    collective.type = type;
    collective.input = input;
    collective.data = output;
    collective.count = count;
    return {group_, group_->launch(collective)};
}

void ProcessGroup::abort() const {
    group_->abort({groups::Trouble::Kind::peer_lost, "the group was aborted on this rank"});
}

}  // namespace ddprun
