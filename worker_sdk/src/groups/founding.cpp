// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/founding.hpp"

#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/death_watch.hpp"
#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/groups/host/host_transport.hpp"
#include "worker_sdk/src/groups/host/hosts.hpp"
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
    if (const auto* trouble = std::get_if<Trouble>(&loaded))
        throw UsageError(
            "the cpu backend is not available (built without Gloo?): " + trouble->text);
    return *std::get<const DdprunPlugin*>(loaded);
}

DeathWatch deaths_of(const Founding& founding) {
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

std::shared_ptr<MismatchWatch> watch_of(const Founding& founding) {
    return std::make_shared<MismatchWatch>(
        founding.store, founding.prefix, founding.world.rank, deaths_of(founding));
}

std::shared_ptr<Group> found_over_gloo(Founding founding) {
    std::vector<int> everybody(static_cast<std::size_t>(founding.world.world_size));
    std::iota(everybody.begin(), everybody.end(), 0);
    return Group::create(
        settings_of(founding, Backend::gloo),
        [connect = connect_over_gloo(founding), everybody] { return connect("gloo", everybody); },
        watch_of(founding),
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
    } catch (const Timeout& error) {
        throw Timeout(text_of({world.rank}) + " could not find its peers: " + error.what());
    }
}

/// Between GPUs, also for a world of one: its buffers are where nobody else can reach them.
std::shared_ptr<Group> found_over_nccl(Founding founding, std::optional<SplitOff> split) {
    auto loaded = load_nccl_plugin();
    if (const auto* trouble = std::get_if<Trouble>(&loaded))
        throw UsageError("the nccl backend is not available: " + trouble->text);
    const auto& plugin = *std::get<const DdprunDevicePlugin*>(loaded);
    NcclSettings settings{
        founding.world, founding.store, founding.prefix, founding.timeout, {}, {}, split};
    if (founding.world.world_size > 1) {
        settings.hosts = hosts_of(founding);
        settings.watch = watch_of(founding);
    }
    const auto watch = settings.watch;
    return Group::create(
        settings_of(founding, Backend::nccl),
        [&plugin, settings] { return open_nccl_transport(plugin, settings); },
        watch,
        founding);
}

/// Shared memory where ranks share a host, Gloo between hosts. Gloo need not be there when there is
/// one host.
std::shared_ptr<Group> found_on_hosts(Founding founding) {
    const auto& world = founding.world;
    const auto hosts = hosts_of(founding);
    if (hosts.all().size() == 1) {
        const auto open = [hosts, rank = world.rank]() -> Group::Opened {
            return std::make_unique<HostTransport>(hosts.segment(), rank, hosts.all().front());
        };
        // In shared memory mismatches and losses are seen at once, by all.
        return Group::create(settings_of(founding, Backend::cpu), open, nullptr, founding);
    }
    TwoLevelTransport::Settings settings;
    settings.rank = world.rank;
    settings.hosts = hosts.all();
    settings.own_host = hosts.own();
    settings.segment = hosts.segment();
    settings.watch = watch_of(founding);
    settings.connect = connect_over_gloo(founding);
    const auto watch = settings.watch;
    return Group::create(
        settings_of(founding, Backend::cpu),
        [settings] { return TwoLevelTransport::open(settings); },
        watch,
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

/// Everything the SDK writes into the store for one more group of the whole world.
std::string prefix_of_next_group(const World& world, Store& store) {
    const auto round = store_names::round(world.incarnation, world.round, world.restart_count);
    const auto number = store.add(round + "groups/" + std::to_string(world.rank), 1);
    if (number == 1) DeathWatch(world, {}).ask(store);
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
