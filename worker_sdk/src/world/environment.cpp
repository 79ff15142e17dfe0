// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/world/environment.hpp"

#include "ddprun/error.hpp"
#include "rendezvous/base/limits.hpp"
#include "worker_sdk/src/environment_names.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>

namespace ddprun::environment {

namespace {

constexpr const char* how_to_launch = "start it with: ddprun --nproc-per-node=N PROGRAM";
constexpr int max_world_size = limits::max_nodes_per_job * limits::max_workers_per_node;

std::string_view value_of(const Lookup& lookup, const char* name) {
    const char* value = lookup(name);
    return value ? std::string_view{value} : std::string_view{};
}

[[noreturn]] void refuse(
    const char* name, std::string_view value, const std::string& what_is_accepted) {
    throw UsageError(
        std::string{name} + "=" + std::string{value.substr(0, 64)} + ": expected " +
        what_is_accepted);
}

/// Digits only: no sign, no blanks, nothing behind.
int read_number(std::string_view value, const char* name, int least, int most) {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc{} && end == value.data() + value.size();
    if (!whole || number < least || number > most)
        refuse(
            name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
    return number;
}

int optional_number(const Lookup& lookup, const char* name, int least, int most, int otherwise) {
    const auto value = value_of(lookup, name);
    return value.empty() ? otherwise : read_number(value, name, least, most);
}

/// Text that ends up in store keys and addresses: printable, without blanks, bounded.
std::string read_name(std::string_view value, const char* name) {
    for (const char c : value)
        if (c <= ' ' || c > '~') refuse(name, "?", "printable characters without blanks");
    if (value.size() > limits::max_name_bytes)
        refuse(name, value, "at most " + std::to_string(limits::max_name_bytes) + " characters");
    return std::string{value};
}

/// True when the launcher's four variables are there, false when none is.
bool is_launched(const Lookup& lookup) {
    const char* missing = nullptr;
    const char* present = nullptr;
    for (const char* name : {rank, world_size, master_addr, master_port}) {
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

}  // namespace

World read_world(const Lookup& lookup) {
    World world;
    if (!is_launched(lookup)) return world;

    world.world_size = read_number(value_of(lookup, world_size), world_size, 1, max_world_size);
    world.rank = read_number(value_of(lookup, rank), rank, 0, world.world_size - 1);
    world.master_addr = read_name(value_of(lookup, master_addr), master_addr);
    world.master_port = static_cast<std::uint16_t>(
        read_number(value_of(lookup, master_port), master_port, 1, 65'535));

    world.local_rank = optional_number(lookup, local_rank, 0, world.world_size - 1, 0);
    // Launchers that tell only LOCAL_RANK exist; there are then at least that many and this one.
    world.local_world_size = optional_number(
        lookup, local_world_size, world.local_rank + 1, world.world_size, world.local_rank + 1);
    world.group_rank = optional_number(lookup, group_rank, 0, world.world_size - 1, 0);

    constexpr int any = std::numeric_limits<int>::max();
    world.restart_count = optional_number(lookup, restart_count, 0, any, 0);
    world.round = optional_number(lookup, round, 0, any, 0);
    world.incarnation = read_name(value_of(lookup, incarnation), incarnation);
    world.node_addr = read_name(value_of(lookup, node_addr), node_addr);
    return world;
}

}  // namespace ddprun::environment
