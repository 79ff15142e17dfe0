// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/founding.hpp"

#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/death_reports.hpp"
#include "worker_sdk/src/groups/failure_monitor.hpp"
#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/groups/host/host_transport.hpp"
#include "worker_sdk/src/groups/host/hosts.hpp"
#include "worker_sdk/src/groups/host/peers.hpp"
#include "worker_sdk/src/groups/nccl_transport.hpp"
#include "worker_sdk/src/groups/plugin.hpp"
#include "worker_sdk/src/groups/two_level_transport.hpp"
#include "worker_sdk/src/store/local_address.hpp"
#include "worker_sdk/src/store_names.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::groups {

namespace {

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

const DdprunPlugin& gloo() {
    auto loaded = load_plugin("libddprun_gloo.so");
    if (const auto* error = std::get_if<GroupError>(&loaded))
        throw UsageError("the cpu backend is not available (built without Gloo?): " + error->text);
    return *std::get<const DdprunPlugin*>(loaded);
}

DeathReports deaths_of(const Founding& founding) {
    return {founding.world, founding.members};
}

/// Connects some ranks of the group over Gloo, this one among them.
TwoLevelTransport::Connect connect_over_gloo(const Founding& founding) {
    const auto& plugin = gloo();
    const auto address = address_of(founding.world, founding.store);
    return [&plugin, address, founding](const std::string& name, const std::vector<int>& ranks) {
        const auto own = std::find(ranks.begin(), ranks.end(), founding.world.rank);
        return open_plugin_transport(
            plugin,
            {static_cast<int>(own - ranks.begin()),
             static_cast<int>(ranks.size()),
             address,
             founding.store,
             founding.prefix + name + "/",
             deaths_of(founding),
             Group::Clock::now() + founding.timeout});
    };
}

Group::Settings settings_of(const Founding& founding, Backend backend) {
    const auto& world = founding.world;
    return {world.rank, world.world_size, backend, founding.timeout, world.round};
}

std::unique_ptr<DesyncDetector> reports_of(const Founding& founding) {
    return std::make_unique<DesyncDetector>(
        founding.store, founding.prefix, founding.world.rank, deaths_of(founding));
}

std::shared_ptr<FailureMonitor> monitor_of(const Founding& founding, FailureMonitor::Way way) {
    return std::make_shared<FailureMonitor>(
        FailureMonitor::Settings{way, reports_of(founding), {}});
}

/// Between GPUs of one host a death is not detected otherwise: their kernels wait for ever. In a
/// world of one there is no peer to check or to report anything.
std::shared_ptr<FailureMonitor> monitor_of_gpus(
    const Founding& founding, const std::optional<Hosts>& hosts) {
    FailureMonitor::Settings settings{FailureMonitor::Way::gpus, {}, {}};
    if (hosts) settings.desync = reports_of(founding);
    if (hosts && hosts->segment())
        settings.ended_processes =
            ended_processes_of(hosts->segment(), hosts->all()[hosts->own()], founding.world.rank);
    return std::make_shared<FailureMonitor>(std::move(settings));
}

std::shared_ptr<Group> found_over_gloo(Founding founding) {
    std::vector<int> everybody(static_cast<std::size_t>(founding.world.world_size));
    std::iota(everybody.begin(), everybody.end(), 0);
    return Group::create(
        settings_of(founding, Backend::gloo),
        [connect = connect_over_gloo(founding), everybody] { return connect("gloo", everybody); },
        monitor_of(founding, FailureMonitor::Way::gloo),
        founding);
}

Hosts hosts_of(Founding& founding) {
    const auto& world = founding.world;
    const auto until = Group::Clock::now() + founding.timeout;
    try {
        return Hosts::find(
            {founding.store, deaths_of(founding), until},
            founding.prefix,
            world.rank,
            world.world_size);
    } catch (const Timeout& thrown) {
        throw Timeout(text_of({world.rank}) + " could not find its peers: " + thrown.what());
    }
}

/// Between GPUs, also for a world of one: its buffers are in GPU memory, which other backends
/// cannot access.
std::shared_ptr<Group> found_over_nccl(Founding founding, std::optional<SplitOff> split) {
    auto loaded = load_nccl_plugin();
    if (const auto* error = std::get_if<GroupError>(&loaded))
        throw UsageError("the nccl backend is not available: " + error->text);
    const auto& plugin = *std::get<const DdprunDevicePlugin*>(loaded);
    std::optional<Hosts> hosts;
    if (founding.world.world_size > 1) hosts = hosts_of(founding);
    const auto monitor = monitor_of_gpus(founding, hosts);
    const NcclSettings settings{
        founding.world, founding.store, founding.prefix, founding.timeout, monitor, split};
    return Group::create(
        settings_of(founding, Backend::nccl),
        [&plugin, settings] { return open_nccl_transport(plugin, settings); },
        monitor,
        founding);
}

/// Shared memory where ranks share a host, Gloo between hosts. Gloo is not required when there is
/// one host.
std::shared_ptr<Group> found_on_hosts(Founding founding) {
    const auto& world = founding.world;
    const auto hosts = hosts_of(founding);
    if (hosts.all().size() == 1) {
        // In shared memory all ranks detect mismatches and losses at once.
        const auto monitor = std::make_shared<FailureMonitor>(
            FailureMonitor::Settings{FailureMonitor::Way::memory, {}, {}});
        const auto open = [hosts, rank = world.rank, monitor]() -> Group::Opened {
            return std::make_unique<HostTransport>(
                hosts.segment(), rank, hosts.all().front(), monitor);
        };
        return Group::create(settings_of(founding, Backend::cpu), open, monitor, founding);
    }
    TwoLevelTransport::Settings settings;
    settings.rank = world.rank;
    settings.hosts = hosts.all();
    settings.own_host = hosts.own();
    settings.segment = hosts.segment();
    settings.monitor = monitor_of(founding, FailureMonitor::Way::hosts);
    settings.connect = connect_over_gloo(founding);
    return Group::create(
        settings_of(founding, Backend::cpu),
        [settings] { return TwoLevelTransport::open(settings); },
        settings.monitor,
        founding);
}

void check_world(const World& world, Backend backend, std::chrono::milliseconds timeout) {
    if (world.world_size < 1 || world.rank < 0 || world.rank >= world.world_size)
        throw UsageError(
            "rank " + std::to_string(world.rank) + " of " + std::to_string(world.world_size) +
            ": there is no such rank");
    if (backend == Backend::loopback && world.world_size > 1)
        throw UsageError(
            "the loopback backend is for a world of one, this one has " +
            std::to_string(world.world_size));
    if (timeout.count() <= 0) throw UsageError("a group needs a timeout above zero");
    if (world.world_size > 1 && !world.is_launched())
        throw UsageError("a world of several ranks needs a store: set master_addr and master_port");
}

/// The key prefix of one more group of the whole world.
std::string prefix_of_next_group(const World& world, Store& store) {
    const auto round = store_names::round(world.incarnation, world.round, world.restart_count);
    const auto number = store.add(round + "groups/" + std::to_string(world.rank), 1);
    if (number == 1) DeathReports(world, {}).ask(store);
    return round + "group" + std::to_string(number) + "/";
}

}  // namespace

Founding founding_of_world(
    const World& world, Store store, Backend backend, std::chrono::milliseconds timeout) {
    check_world(world, backend, timeout);
    Founding founding{world, std::move(store), {}, backend, timeout};
    if (world.world_size > 1 || backend == Backend::nccl)
        founding.prefix = prefix_of_next_group(world, founding.store);
    return founding;
}

std::shared_ptr<Group> found(Founding founding, std::optional<SplitOff> split) {
    if (founding.backend == Backend::nccl) return found_over_nccl(std::move(founding), split);
    if (founding.world.world_size == 1) return Group::create_alone();
    if (founding.backend == Backend::gloo) return found_over_gloo(std::move(founding));
    return found_on_hosts(std::move(founding));
}

}  // namespace ddprun::groups
