// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/cpu_binding.hpp"

#include <optional>

namespace ddprun::launcher {

Result<CpuBindingChoice> choose_cpu_binding(
    const Options& options,
    const Environment& environment,
    int worker_count,
    const ReadTopology& read_topology) {
    CpuBindingChoice choice;
    const auto given = options.find("numa-binding");
    if (!given) {
        choice.origin = "default";
        return choice;
    }
    const auto mode = agent::parse_binding_mode(given->text);
    if (!mode)
        return Failure{
            system_code(EINVAL),
            given->origin + ": '" + given->text +
                "': accepted are node, socket, exclusive and core-complex"};

    const auto machine = read_topology();
    std::optional<std::string> visible;
    // Here an empty variable is meaningful: no GPU.
    if (const auto found = environment.find(agent::visible_variable(environment));
        found != environment.end())
        visible = found->second;
    choice.mode = agent::describe(*mode);
    choice.origin = given->origin;
    choice.plan = agent::plan_binding(
        *mode, machine, agent::visible_gpus(machine.gpus, visible), worker_count);
    return choice;
}

std::vector<std::string> describe(const agent::BindingPlan& plan) {
    std::vector<std::string> lines;
    int local_rank = 0;
    for (const auto& worker : plan.workers) {
        auto line = std::to_string(local_rank++) + ": ";
        line += worker.cpus.empty() ? "any CPU" : "CPUs " + agent::describe(worker.cpus);
        if (worker.memory_node) line += ", memory of node " + std::to_string(*worker.memory_node);
        lines.push_back(std::move(line));
    }
    return lines;
}

}  // namespace ddprun::launcher
