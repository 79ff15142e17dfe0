// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/create_group.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/death_reports.hpp"
#include "worker_sdk/src/groups/failure_monitor.hpp"
#include "worker_sdk/src/store/local_address.hpp"
#include "worker_sdk/src/store_names.hpp"
#include "worker_sdk/src/transports/host/host_transport.hpp"
#include "worker_sdk/src/transports/host/hosts.hpp"
#include "worker_sdk/src/transports/host/peers.hpp"
#include "worker_sdk/src/transports/nccl/libraries.hpp"
#include "worker_sdk/src/transports/nccl/nccl_transport.hpp"
#include "worker_sdk/src/transports/two_level_transport.hpp"
#include "worker_sdk/src/transports/wire/wire_transport.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::groups {

namespace {

std::string address_of(const World& world, const Store& store) {
    auto address = world.node_addr.empty() ? store.local_address() : world.node_addr;
    if (address.empty())
        throw UsageError(
            std::string{"no address found under which the peers reach this machine: set "} +
            environment::node_addr);
    if (!is_address_of_this_machine(address))
        throw UsageError(
            std::string{environment::node_addr} + "=" + address +
            " is not an address of this machine (ddprun --local-addr sets it)");
    return address;
}

DeathReports deaths_of(const GroupConfig& config) {
    return {config.world, config.members};
}

/// Returns a function that opens connections between some ranks of the group, including this one.
TwoLevelTransport::Open open_between_hosts(const GroupConfig& config, bool has_core) {
    const auto address = address_of(config.world, config.store);
    return [address, has_core, config](const std::string& name, const std::vector<int>& ranks) {
        return WireTransport::open(
            {ranks,
             config.world.rank,
             address,
             has_core,
             config.store,
             config.prefix + name + "/",
             deaths_of(config),
             Group::Clock::now() + config.timeout});
    };
}

Group::Settings settings_of(const GroupConfig& config, Backend backend) {
    const auto& world = config.world;
    return {world.rank, world.world_size, backend, config.timeout, world.round};
}

std::unique_ptr<DesyncDetector> reports_of(const GroupConfig& config) {
    return std::make_unique<DesyncDetector>(
        config.store, config.prefix, config.world.rank, deaths_of(config));
}

std::shared_ptr<FailureMonitor> monitor_of(const GroupConfig& config, FailureMonitor::Way way) {
    return std::make_shared<FailureMonitor>(FailureMonitor::Settings{way, reports_of(config), {}});
}

/// Without this monitor the death of a rank is not detected between GPUs of one host: the kernels
/// wait for ever. A world of one has no peer to check or to report to.
std::shared_ptr<FailureMonitor> monitor_of_gpus(
    const GroupConfig& config, const std::optional<Hosts>& hosts) {
    FailureMonitor::Settings settings{FailureMonitor::Way::gpus, {}, {}};
    if (hosts) settings.desync = reports_of(config);
    if (hosts && hosts->segment())
        settings.ended_processes =
            ended_processes_of(hosts->segment(), hosts->all()[hosts->own()], config.world.rank);
    return std::make_shared<FailureMonitor>(std::move(settings));
}

Hosts hosts_of(GroupConfig& config) {
    const auto& world = config.world;
    const auto until = Group::Clock::now() + config.timeout;
    try {
        return Hosts::find(
            {config.store, deaths_of(config), until}, config.prefix, world.rank, world.world_size);
    } catch (const Timeout& thrown) {
        const auto text = text_of({world.rank}) + " could not find its peers: " + thrown.what();
        throw Timeout(text, Hosts::missing(config.store, config.prefix, world.world_size));
    }
}

/// Creates a group between GPUs. A world of one uses this too: its buffers are in GPU memory, which
/// other backends cannot access.
std::shared_ptr<Group> create_over_nccl(
    GroupConfig config, const std::optional<nccl::SplitOff>& split) {
    auto loaded = nccl::Libraries::get();
    if (const auto* error = std::get_if<GroupError>(&loaded))
        throw UsageError("the nccl backend is not available: " + error->text);
    auto& libraries = *std::get<nccl::Libraries*>(loaded);
    std::optional<Hosts> hosts;
    if (config.world.world_size > 1) hosts = hosts_of(config);
    const auto monitor = monitor_of_gpus(config, hosts);
    const nccl::GroupContext::Settings settings{
        config.world, config.store, config.prefix, config.timeout, monitor};
    return Group::create(
        settings_of(config, Backend::nccl),
        [&libraries, settings, split] {
            return nccl::NcclTransport::open(libraries, settings, split);
        },
        monitor,
        config);
}

/// Each rank sets its own key before `Hosts::find`, which ends once all ranks have called it.
std::string wire_key(const GroupConfig& config, int rank) {
    return config.prefix + "wire" + std::to_string(wire_version) + "/" + std::to_string(rank);
}

/// Ranks of two releases with different ways to exchange data would wait for each other for ever.
void require_same_wire(GroupConfig& config) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < config.world.world_size; ++rank)
        keys.push_back(wire_key(config, rank));
    if (config.store.check(keys)) return;
    std::vector<int> others;
    for (int rank = 0; rank < config.world.world_size; ++rank)
        if (!config.store.check({wire_key(config, rank)})) others.push_back(rank);
    throw Mismatch(
        text_of(others) + (others.size() == 1 ? " runs" : " run") +
        " another release of the SDK than " + text_of({config.world.rank}) +
        ": they cannot exchange data between hosts");
}

/// Shared memory between ranks of a host, TCP between hosts.
std::shared_ptr<Group> create_on_hosts(GroupConfig config) {
    const auto& world = config.world;
    config.store.set(wire_key(config, world.rank), "");
    const auto hosts = hosts_of(config);
    if (hosts.all().size() == 1) {
        // In shared memory all ranks detect mismatches and losses at once.
        const auto monitor = std::make_shared<FailureMonitor>(
            FailureMonitor::Settings{FailureMonitor::Way::memory, {}, {}});
        const auto open = [hosts, rank = world.rank, monitor]() -> Group::Opened {
            return std::make_unique<HostTransport>(
                hosts.segment(), rank, hosts.all().front(), monitor);
        };
        return Group::create(settings_of(config, Backend::cpu), open, monitor, config);
    }
    require_same_wire(config);
    TwoLevelTransport::Settings settings;
    settings.rank = world.rank;
    settings.hosts = hosts.all();
    settings.own_host = hosts.own();
    settings.segment = hosts.segment();
    settings.monitor = monitor_of(config, FailureMonitor::Way::hosts);
    // A rank that is alone on its host always has a processor.
    const bool has_core = !settings.segment || has_processor_for_each(*settings.segment);
    settings.open = open_between_hosts(config, has_core);
    return Group::create(
        settings_of(config, Backend::cpu),
        [settings]() -> Group::Opened { return std::make_unique<TwoLevelTransport>(settings); },
        settings.monitor,
        config);
}

/// The numbers of the backends have a gap.
bool is_known(Backend backend) {
    switch (backend) {
        case Backend::automatic:
        case Backend::cpu:
        case Backend::loopback:
        case Backend::nccl: return true;
    }
    return false;
}

void check_world(const World& world, Backend backend, std::chrono::milliseconds timeout) {
    if (world.world_size < 1 || world.rank < 0 || world.rank >= world.world_size)
        throw UsageError(
            "rank " + std::to_string(world.rank) + " of " + std::to_string(world.world_size) +
            ": there is no such rank");
    if (!is_known(backend))
        throw UsageError("there is no backend " + std::to_string(static_cast<int>(backend)));
    if (backend == Backend::loopback && world.world_size > 1)
        throw UsageError(
            "the loopback backend is for a world of one, this one has " +
            std::to_string(world.world_size));
    if (timeout.count() <= 0) throw UsageError("a group needs a timeout above zero");
    if (world.world_size > 1 && !world.is_launched())
        throw UsageError("a world of several ranks needs a store: set master_addr and master_port");
}

/// The key prefix of the next group of the whole world.
std::string prefix_of_next_group(const World& world, Store& store) {
    const auto round = store_names::round(world.incarnation, world.round, world.restart_count);
    const auto number = store.add(round + "groups/" + std::to_string(world.rank), 1);
    if (number == 1) DeathReports(world, {}).ask(store);
    return round + "group" + std::to_string(number) + "/";
}

std::shared_ptr<Group> create(GroupConfig config, const std::optional<nccl::SplitOff>& split = {}) {
    if (config.backend == Backend::nccl) return create_over_nccl(std::move(config), split);
    if (config.world.world_size == 1) return Group::create_alone();
    return create_on_hosts(std::move(config));
}

/// The color and key of a rank.
struct Choice {
    std::int32_t color;
    std::int32_t key;
};

std::vector<Choice> choices_of_all(Group& group, Choice mine) {
    std::vector<Choice> all(static_cast<std::size_t>(group.settings().world_size));
    Collective collective;
    collective.kind = Collective::Kind::split;
    collective.type = ElementType::int32;
    collective.input = &mine;
    collective.data = all.data();
    collective.count = 2;
    collective.is_on_host = true;
    group.perform(collective);
    return all;
}

/// The ranks with this color, in the order of their keys.
std::vector<int> members_of(int color, const std::vector<Choice>& choices) {
    const auto choice_of = [&](int rank) { return choices[static_cast<std::size_t>(rank)]; };
    std::vector<int> members;
    for (int rank = 0; rank < static_cast<int>(choices.size()); ++rank)
        if (choice_of(rank).color == color) members.push_back(rank);
    std::stable_sort(members.begin(), members.end(), [&](int one, int other) {
        return choice_of(one).key < choice_of(other).key;
    });
    return members;
}

/// Splits this rank's part off the group on the GPU. Each part is identified by its lowest rank. A
/// rank without a part forms a part by itself, because NCCL may crash on ranks without a color
/// (communicators.hpp).
nccl::Communicators::Comm split_on_gpu(
    Group& group, nccl::NcclTransport& transport, const std::vector<int>& members) {
    const int own_rank = group.settings().rank;
    const auto own = std::find(members.begin(), members.end(), own_rank);
    const bool is_in = own != members.end();
    const int color = is_in ? *std::min_element(members.begin(), members.end()) : own_rank;
    const int key = is_in ? static_cast<int>(own - members.begin()) : 0;
    nccl::Communicators::Comm part = nullptr;
    group.perform_beside_queue([&]() -> Outcome {
        auto split = transport.split(color, key);
        if (auto* error = std::get_if<GroupError>(&split)) return std::move(*error);
        part = std::get<nccl::Communicators::Comm>(split);
        return {};
    });
    return part;
}

}  // namespace

GroupConfig config_of_world(
    const World& world, Store store, Backend backend, std::chrono::milliseconds timeout) {
    check_world(world, backend, timeout);
    GroupConfig config{world, std::move(store), {}, backend, timeout};
    if (world.world_size > 1 || backend == Backend::nccl)
        config.prefix = prefix_of_next_group(world, config.store);
    return config;
}

std::shared_ptr<Group> create_group(GroupConfig config) {
    return create(std::move(config));
}

std::shared_ptr<Group> sub_group(Group& group, const std::vector<int>& ranks) {
    const bool is_alone = ranks == std::vector{group.settings().rank};
    if (is_alone && group.settings().backend != Backend::nccl) return Group::create_alone();
    return create(group.config_of(ranks));
}

std::shared_ptr<Group> split(Group& group, int color, int key) {
    const auto choices = choices_of_all(group, {color, key});
    const auto members = color < 0 ? std::vector<int>{} : members_of(color, choices);
    const auto transport = group.transport();
    auto* const over_nccl = dynamic_cast<nccl::NcclTransport*>(transport.get());
    if (!over_nccl) return members.empty() ? nullptr : sub_group(group, members);
    auto& session = over_nccl->session();
    const auto drop = [&](auto* part) { session.drop(part); };
    const std::unique_ptr<nccl::abi::Communicator, decltype(drop)> part(
        split_on_gpu(group, *over_nccl, members), drop);
    if (members.empty()) return nullptr;
    return create(group.config_of(members), nccl::SplitOff{part.get(), &session});
}

}  // namespace ddprun::groups
