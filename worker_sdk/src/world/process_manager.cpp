// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/world/process_manager.hpp"

#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/world/numbers.hpp"

#include <array>

namespace ddprun::environment {
namespace {

constexpr RankNames launcher{rank, world_size, local_rank, local_world_size, group_rank, nullptr};

constexpr std::array managers{
    RankNames{ompi_rank, ompi_size, ompi_local_rank, ompi_local_size, nullptr, nullptr},
    RankNames{pmi_rank, pmi_size, pmi_local_rank, pmi_local_size, nullptr, nullptr},
    RankNames{slurm_rank, slurm_size, slurm_local_rank, nullptr, slurm_node, slurm_tasks_per_node},
};

}  // namespace

const RankNames* who_numbered_us(const Lookup& lookup) {
    const auto is_set = [&](const char* name) { return !value_of(lookup, name).empty(); };
    if (is_set(launcher.rank) || is_set(launcher.world_size)) return &launcher;
    for (const auto& manager : managers)
        if (is_set(manager.rank) && is_set(manager.world_size)) return &manager;
    return nullptr;
}

bool is_launcher(const RankNames& names) {
    return &names == &launcher;
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

}  // namespace ddprun::environment
