// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/world/environment.hpp"

#include "ddprun/error.hpp"
#include "rendezvous/base/limits.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/world/numbers.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::environment {

namespace {

constexpr const char* how_to_launch = "start it with: ddprun --nproc-per-node=N PROGRAM";

/// The names of the variables in which the launcher or process manager passes the ranks.
struct RankNames {
    const char* rank;
    const char* world_size;
    const char* local_rank;
    const char* local_world_size;  ///< null: `tasks_per_node` has it
    const char* group_rank;        ///< null: there is none
    const char* tasks_per_node;
};

constexpr RankNames launcher{rank, world_size, local_rank, local_world_size, group_rank, nullptr};

constexpr std::array managers{
    RankNames{ompi_rank, ompi_size, ompi_local_rank, ompi_local_size, nullptr, nullptr},
    RankNames{pmi_rank, pmi_size, pmi_local_rank, pmi_local_size, nullptr, nullptr},
    RankNames{slurm_rank, slurm_size, slurm_local_rank, nullptr, slurm_node, slurm_tasks_per_node},
};

/// The names of the launcher when one of RANK and WORLD_SIZE is set; else the names of mpirun or
/// srun, when one of them started this process; else null.
const RankNames* rank_names(const Lookup& lookup) {
    const auto is_set = [&](const char* name) { return !value_of(lookup, name).empty(); };
    if (is_set(launcher.rank) || is_set(launcher.world_size)) return &launcher;
    for (const auto& manager : managers)
        if (is_set(manager.rank) && is_set(manager.world_size)) return &manager;
    return nullptr;
}

bool is_launcher(const RankNames& names) {
    return &names == &launcher;
}

constexpr int max_world_size = limits::max_nodes_per_job * limits::max_workers_per_node;

int optional_number(const Lookup& lookup, const char* name, int least, int most, int otherwise) {
    const auto value = name ? value_of(lookup, name) : std::string_view{};
    return value.empty() ? otherwise : number_between(value, name, least, most);
}

/// Reads a text that is used in store keys and addresses: printable, without blanks, bounded.
std::string read_name(std::string_view value, const char* name) {
    for (const char c : value)
        if (c <= ' ' || c > '~') refuse_value(name, "?", "printable characters without blanks");
    if (value.size() > limits::max_name_bytes)
        refuse_value(
            name, value, "at most " + std::to_string(limits::max_name_bytes) + " characters");
    return std::string{value};
}

/// True when all four variables of the launcher are set, false when none is; throws otherwise.
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
bool has_store_address(const Lookup& lookup, const RankNames& names) {
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
    const int tasks = tasks_on_node(value_of(lookup, names->tasks_per_node), world.group_rank);
    if (tasks >= at_least && tasks <= world.world_size) world.local_world_size = tasks;
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

std::optional<StateSource> read_state_source(const Lookup& lookup) {
    const auto text = value_of(lookup, state_source);
    if (text.empty()) return std::nullopt;
    const auto slash = text.find('/');
    StateSource source;
    source.rank = number_between(text.substr(0, slash), state_source, 0, max_world_size - 1);
    const auto step = slash == std::string_view::npos ? std::string_view{} : text.substr(slash + 1);
    const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), source.step);
    if (error != std::errc{} || end != step.data() + step.size())
        throw UsageError(
            std::string{state_source} + "=" + std::string{text} + ": expected RANK/STEP");
    return source;
}

int tasks_on_node(std::string_view text, int node) {
    int first = 0;
    while (!text.empty()) {
        const auto comma = text.find(',');
        auto part = text.substr(0, comma);
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);

        const auto times = part.find("(x");
        int nodes = 1;
        if (times != std::string_view::npos) {
            if (!part.ends_with(')')) return 0;
            nodes = digits(part.substr(times + 2, part.size() - times - 3)).value_or(0);
            part = part.substr(0, times);
        }
        if (node - first < nodes) return digits(part).value_or(0);
        first += nodes;
    }
    return 0;
}

World read_world(const Lookup& lookup, const InitMethod& method) {
    World world;
    const auto* names = rank_names(lookup);
    if (method.kind == InitMethod::Kind::environment) {
        const bool is_launched = names && !is_launcher(*names) ? has_store_address(lookup, *names)
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
