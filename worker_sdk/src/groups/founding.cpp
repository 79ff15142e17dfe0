// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/founding.hpp"

#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/group.hpp"
#include "worker_sdk/src/groups/plugin.hpp"
#include "worker_sdk/src/store/local_address.hpp"

#include <memory>
#include <utility>
#include <variant>

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

}  // namespace

std::string prefix_of_next_group(const World& world, Store& store) {
    // A round's store is fresh, but a launcher that keeps one store for several rounds must not let
    // them meet.
    const auto round = "ddprun/" + world.incarnation + "/" + std::to_string(world.round) + "/" +
                       std::to_string(world.restart_count) + "/";
    const auto number = store.add(round + "groups/" + std::to_string(world.rank), 1);
    return round + "group" + std::to_string(number) + "/";
}

ProcessGroup found(Founding founding) {
    const auto& world = founding.world;
    if (world.world_size == 1) return Group::create_alone();
    const auto& plugin = gloo();
    PluginSettings settings{
        world.rank,
        world.world_size,
        address_of(world, founding.store),
        founding.store,
        founding.prefix + "gloo/",
        Group::Clock::now() + founding.options.timeout};
    auto watch = std::make_unique<MismatchWatch>(founding.store, founding.prefix, world.rank);
    const Group::Settings group{
        world.rank, world.world_size, Backend::gloo, founding.options.timeout, world.round};
    return Group::create(
        group,
        [&plugin, settings] { return open_plugin_transport(plugin, settings); },
        std::move(watch),
        std::move(founding));
}

}  // namespace ddprun::groups
