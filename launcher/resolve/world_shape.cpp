// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/node_range.hpp"
#include "launcher/grammar/topology_file.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::string_view file_form = "file:";

Result<std::string> place_by_slurm(const Resolving& job, const Given& given) {
    const auto address = value_of(job.system.environment, "SLURM_TOPOLOGY_ADDR");
    const auto pattern = value_of(job.system.environment, "SLURM_TOPOLOGY_ADDR_PATTERN");
    auto place = switches_of(address.value_or(""), pattern.value_or(""));
    if (!place.empty()) return place;
    return usage(
        given.origin,
        given.text,
        "Slurm names no switches here (SLURM_TOPOLOGY_ADDR); it does in the tasks of a step where "
        "it is configured with topology/tree or topology/block; give file:PATH or env:NAME");
}

Result<std::string> place_by_variable(
    const Resolving& job, const Given& given, const std::string& name) {
    const auto value = value_of(job.system.environment, name);
    const auto place = trimmed(trimmed(value.value_or("")), "/");
    if (!place.empty()) return std::string{place};
    return usage(given.origin, given.text, "the variable " + name + " has no value here");
}

Result<std::string> place_by_file(const Resolving& job, const Given& given) {
    const auto path = given.text.substr(file_form.size());
    const auto text = job.system.read_file ? job.system.read_file(path) : std::nullopt;
    if (!text) return usage(given.origin, given.text, "the file cannot be read");
    const auto& host = job.system.host_name;
    std::vector<std::string> names{host, host.substr(0, host.find('.'))};
    if (const auto name = value_of(job.system.environment, "SLURMD_NODENAME"))
        names.emplace_back(*name);
    if (auto place = place_in_topology(*text, names)) return std::move(*place);
    return usage(given.origin, given.text, "no line of the file names this node, " + host);
}

Result<std::string> place_of_node(const Resolving& job, const Given& given) {
    if (given.text == "slurm") return place_by_slurm(job, given);
    if (const auto name = topology_variable(given.text))
        return place_by_variable(job, given, std::string{*name});
    if (given.text.starts_with(file_form)) return place_by_file(job, given);
    return usage(given.origin, given.text, "accepted are slurm, file:PATH and env:NAME");
}

}  // namespace

Result<> use_node_unit(Resolving& job) {
    const auto given = job.options.find("node-unit");
    if (!given) return {};
    auto& nodes = job.spec.nodes;
    const auto range = with_unit(nodes.value, nodes.origin, given->text);
    if (!range) return Failure{range.error().code, given->origin + ": " + range.error().context};
    const bool is_narrowed = range->min != nodes.value.min || range->max != nodes.value.max;
    nodes = {*range, is_narrowed ? nodes.origin + ", " + given->origin : nodes.origin};
    return {};
}

Result<> resolve_topology(Resolving& job) {
    const auto given = job.options.find("topology");
    if (!given) return {};
    const auto place = place_of_node(job, *given);
    if (!place) return place.error();
    if (place->size() > limits::max_name_bytes)
        return usage(
            given->origin,
            *place,
            "accepted are names of up to " + std::to_string(limits::max_name_bytes) + " bytes");
    job.spec.node.topology = *place;
    return {};
}

}  // namespace ddprun::launcher
