// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/world/environment.hpp"

#include "ddprun/error.hpp"
#include "rendezvous/base/limits.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/world/numbers.hpp"
#include "worker_sdk/src/world/process_manager.hpp"

#include <array>
#include <limits>
#include <string>
#include <string_view>

namespace ddprun::environment {

namespace {

constexpr const char* how_to_launch = "start it with: ddprun --nproc-per-node=N PROGRAM";
constexpr int max_world_size = limits::max_nodes_per_job * limits::max_workers_per_node;

int optional_number(const Lookup& lookup, const char* name, int least, int most, int otherwise) {
    const auto value = name ? value_of(lookup, name) : std::string_view{};
    return value.empty() ? otherwise : number_between(value, name, least, most);
}

/// Text that is used in store keys and addresses: printable, without blanks, bounded.
std::string read_name(std::string_view value, const char* name) {
    for (const char c : value)
        if (c <= ' ' || c > '~') refuse_value(name, "?", "printable characters without blanks");
    if (value.size() > limits::max_name_bytes)
        refuse_value(
            name, value, "at most " + std::to_string(limits::max_name_bytes) + " characters");
    return std::string{value};
}

/// True when the launcher's four variables are there, false when none is.
bool has_all_or_none(const Lookup& lookup) {
    const char* missing = nullptr;
    const char* present = nullptr;
    for (const char* name : std::array{rank, world_size, master_addr, master_port}) {
        if (value_of(lookup, name).empty()) {
            if (!missing) missing = name;
        } else if (!present) {
            present = name;
        }
    }
    if (missing && present)
        throw UsageError(
            std::string{missing} + " is not set, although " + present + " is: unset " + present +
            " to run alone, or " + how_to_launch);
    return !missing;
}

/// mpirun and srun number the ranks but give no address for the rendezvous.
bool has_place_to_meet(const Lookup& lookup, const RankNames& names) {
    for (const char* name : std::array{master_addr, master_port})
        if (value_of(lookup, name).empty()) {
            if (number_between(
                    value_of(lookup, names.world_size), names.world_size, 1, max_world_size) == 1)
                return false;
            throw UsageError(
                std::string{name} + " is not set, although " + names.rank +
                " is: set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port there, "
                "or use the init method file:///SHARED/PATH");
        }
    return true;
}

int read_one(
    const Lookup& lookup,
    const InitMethod& method,
    const std::optional<int>& given,
    const char* word,
    const char* variable,
    int least,
    int most) {
    const auto value =
        given ? std::to_string(*given) : std::string{variable ? value_of(lookup, variable) : ""};
    if (value.empty())
        throw UsageError(
            "init method " + method.text + ": " + word +
            " is neither in it nor in the environment: "
            "write ?rank=R&world_size=W behind it, or " +
            how_to_launch);
    return number_between(value, given ? word : variable, least, most);
}

void read_ranks(
    World& world, const Lookup& lookup, const InitMethod& method, const RankNames* names) {
    world.world_size = read_one(
        lookup,
        method,
        method.world_size,
        "world_size",
        names ? names->world_size : nullptr,
        1,
        max_world_size);
    world.rank = read_one(
        lookup,
        method,
        method.rank,
        "rank",
        names ? names->rank : nullptr,
        0,
        world.world_size - 1);
    if (!names) return;

    const int last = world.world_size - 1;
    world.local_rank = optional_number(lookup, names->local_rank, 0, last, 0);
    world.group_rank = optional_number(lookup, names->group_rank, 0, last, 0);
    // Some launchers set only LOCAL_RANK; the node then has at least LOCAL_RANK + 1 workers.
    const int at_least = world.local_rank + 1;
    world.local_world_size =
        optional_number(lookup, names->local_world_size, at_least, world.world_size, at_least);
    if (!names->tasks_per_node) return;
    const int told = tasks_on_node(value_of(lookup, names->tasks_per_node), world.group_rank);
    if (told >= at_least && told <= world.world_size) world.local_world_size = told;
}

/// Is the store at `endpoint` the launcher's?
bool is_served_by_launcher(const Lookup& lookup, const Endpoint& endpoint) {
    return value_of(lookup, use_agent_store) == "True" &&
           value_of(lookup, master_addr) == endpoint.host &&
           value_of(lookup, master_port) == std::to_string(endpoint.port);
}

void read_place(World& world, const Lookup& lookup, const InitMethod& method) {
    Endpoint endpoint = method.endpoint;
    switch (method.kind) {
        case InitMethod::Kind::environment:
            endpoint.host = read_name(value_of(lookup, master_addr), master_addr);
            endpoint.port = static_cast<std::uint16_t>(
                number_between(value_of(lookup, master_port), master_port, 1, 65'535));
            break;
        case InitMethod::Kind::tcp: break;
        case InitMethod::Kind::file: world.store_file = method.path; break;
    }
    world.master_addr = endpoint.host;
    world.master_port = endpoint.port;
    world.rank_0_hosts_store = !is_served_by_launcher(lookup, endpoint);
}

}  // namespace

World read_world(const Lookup& lookup, const InitMethod& method) {
    World world;
    const auto* names = who_numbered_us(lookup);
    if (method.kind == InitMethod::Kind::environment) {
        const bool is_launched = names && !is_launcher(*names) ? has_place_to_meet(lookup, *names)
                                                               : has_all_or_none(lookup);
        if (!is_launched) return world;
    }
    read_ranks(world, lookup, method, names);
    read_place(world, lookup, method);

    constexpr int any = std::numeric_limits<int>::max();
    world.restart_count = optional_number(lookup, restart_count, 0, any, 0);
    world.round = optional_number(lookup, round, 0, any, 0);
    world.incarnation = read_name(value_of(lookup, incarnation), incarnation);
    world.node_addr = read_name(value_of(lookup, node_addr), node_addr);
    return world;
}

}  // namespace ddprun::environment
