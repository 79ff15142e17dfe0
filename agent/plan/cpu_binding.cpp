// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/cpu_binding.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::array<std::pair<BindingMode, std::string_view>, 4> modes{{
    {BindingMode::node, "node"},
    {BindingMode::socket, "socket"},
    {BindingMode::exclusive, "exclusive"},
    {BindingMode::core_complex, "core-complex"},
}};

CpuList numbers_of(const std::vector<Cpu>& cpus) {
    CpuList list;
    for (const auto& cpu : cpus)
        list.push_back(cpu.number);
    std::sort(list.begin(), list.end());
    return list;
}

/// A GPU, or without GPUs a worker, and its position among those on its NUMA node. `exclusive` and
/// `core-complex` divide the node among them, so the share of one does not depend on how many
/// workers are started.
struct Seat {
    int node = 0;
    std::size_t place = 0;
    std::size_t seat_count = 1;
};

std::vector<Seat> seats_on(const std::vector<int>& nodes) {
    std::map<int, std::size_t> counts;
    for (const int node : nodes)
        ++counts[node];
    std::map<int, std::size_t> taken;
    std::vector<Seat> seats;
    for (const int node : nodes)
        seats.push_back({node, taken[node]++, counts[node]});
    return seats;
}

/// The part of the machine that this process may use.
class Allowed {
public:
    explicit Allowed(const Topology& machine) : machine_(machine) {
        for (const auto& cpu : machine.cpus)
            if (contains(machine.allowed, cpu.number)) cpus_.push_back(cpu);
    }

    /// The nodes that have allowed CPUs.
    std::vector<int> nodes() const {
        std::set<int> found;
        for (const auto& cpu : cpus_)
            found.insert(cpu.node);
        return {found.begin(), found.end()};
    }

    bool is_one_node() const {
        return std::all_of(machine_.cpus.begin(), machine_.cpus.end(), [&](const Cpu& cpu) {
            return cpu.node == machine_.cpus.front().node;
        });
    }

    std::vector<Cpu> by_node() const {
        auto sorted = cpus_;
        std::stable_sort(sorted.begin(), sorted.end(), [](const Cpu& a, const Cpu& b) {
            return a.node < b.node;
        });
        return sorted;
    }

    /// The CPUs of a node, sorted by number.
    std::vector<Cpu> on_node(int node) const {
        return those([node](const Cpu& cpu) { return cpu.node == node; });
    }

    CpuList on_socket_of(int node) const {
        // The node may have no allowed CPUs although its socket has some.
        const auto any =
            std::find_if(machine_.cpus.begin(), machine_.cpus.end(), [node](const Cpu& cpu) {
                return cpu.node == node;
            });
        if (any == machine_.cpus.end()) return {};
        // Takes whole nodes: a node that spans sockets belongs to the socket of its first CPU.
        std::set<int> nodes;
        std::set<int> seen;
        for (const auto& cpu : machine_.cpus)
            if (seen.insert(cpu.node).second && cpu.socket == any->socket) nodes.insert(cpu.node);
        return numbers_of(those([&](const Cpu& cpu) { return nodes.contains(cpu.node); }));
    }

    CpuList share_of_cores(const Seat& seat) const {
        std::map<int, std::vector<Cpu>> cores;
        for (const auto& cpu : on_node(seat.node))
            cores[cpu.core].push_back(cpu);
        const auto each = cores.size() / seat.seat_count;
        const auto left_over = cores.size() % seat.seat_count;
        if (each == 0) return {};
        const auto first = seat.place * each + std::min(seat.place, left_over);
        const auto last = first + each + (seat.place < left_over ? 1 : 0);
        std::vector<Cpu> share;
        std::size_t at = 0;
        for (const auto& [core, threads] : cores) {
            if (at >= first && at < last) share.insert(share.end(), threads.begin(), threads.end());
            ++at;
        }
        return numbers_of(share);
    }

    CpuList core_complex(const Seat& seat) const {
        std::map<int, std::vector<Cpu>> by_cache;
        for (const auto& cpu : on_node(seat.node))
            by_cache[cpu.cache.value_or(-1)].push_back(cpu);
        std::vector<CpuList> complexes;
        for (const auto& [cache, cpus] : by_cache)
            complexes.push_back(numbers_of(cpus));
        if (complexes.empty()) return {};
        // The complexes with the most allowed CPUs come first.
        std::stable_sort(complexes.begin(), complexes.end(), [](const auto& a, const auto& b) {
            return a.size() > b.size();
        });
        return complexes[seat.place % complexes.size()];
    }

    std::optional<int> only_node_of(const CpuList& list) const {
        std::set<int> nodes;
        for (const auto& cpu : cpus_)
            if (contains(list, cpu.number)) nodes.insert(cpu.node);
        return nodes.size() == 1 ? std::optional{*nodes.begin()} : std::nullopt;
    }

private:
    template <class Predicate>
    std::vector<Cpu> those(Predicate predicate) const {
        std::vector<Cpu> found;
        std::copy_if(cpus_.begin(), cpus_.end(), std::back_inserter(found), predicate);
        return found;
    }

    const Topology& machine_;
    std::vector<Cpu> cpus_;
};

std::string ranks_text(const CpuList& local_ranks) {
    return (local_ranks.size() == 1 ? "local rank " : "local ranks ") + describe(local_ranks);
}

class Planning {
public:
    Planning(BindingMode mode, const Topology& machine, int worker_count)
        : mode_(mode),
          allowed_(machine),
          worker_count_(worker_count) {}

    BindingPlan run(const std::optional<std::vector<Gpu>>& gpus) {
        plan_.workers.resize(static_cast<std::size_t>(worker_count_));
        if (allowed_.nodes().empty()) {
            plan_.placed_by = "nothing";
            plan_.problems.emplace_back("the machine does not report its CPUs: no worker is bound");
            return std::move(plan_);
        }
        const auto seats = seats_on(places(gpus));
        for (int local_rank = 0; local_rank < worker_count_; ++local_rank) {
            const auto index = static_cast<std::size_t>(local_rank);
            if (index < seats.size())
                bind(local_rank, seats[index]);
            else
                without_gpu_.push_back(local_rank);
        }
        add_problems(seats.size());
        return std::move(plan_);
    }

private:
    /// The node of each GPU, or of each worker.
    std::vector<int> places(const std::optional<std::vector<Gpu>>& gpus) {
        if (gpus && !gpus->empty()) {
            if (auto nodes = nodes_of(*gpus); !nodes.empty()) {
                plan_.placed_by = "the GPU of the local rank";
                return nodes;
            }
            plan_.placed_by =
                "spread over the NUMA nodes: the machine does not report those of its GPUs";
            plan_.problems.emplace_back(
                "the machine does not report the NUMA nodes of its GPUs: workers are spread "
                "evenly");
        } else if (!gpus) {
            plan_.placed_by = "spread over the NUMA nodes: CUDA_VISIBLE_DEVICES names a MIG device";
            plan_.problems.emplace_back(
                "CUDA_VISIBLE_DEVICES names a MIG device, whose GPU is not known: workers are "
                "spread evenly");
        } else {
            plan_.placed_by = "spread over the NUMA nodes: no GPU is visible";
        }
        return spread();
    }

    /// The nodes of the GPUs; empty when one of them is unknown.
    std::vector<int> nodes_of(const std::vector<Gpu>& gpus) const {
        std::vector<int> nodes;
        for (const auto& gpu : gpus) {
            // With one node there is no choice, and firmware often names none.
            if (allowed_.is_one_node())
                nodes.push_back(allowed_.nodes().front());
            else if (gpu.node)
                nodes.push_back(*gpu.node);
            else
                return {};
        }
        return nodes;
    }

    /// Every worker represents an equal part of the allowed CPUs, counted node by node, and goes to
    /// the node of the first CPU of its part. So a node with few allowed CPUs gets few workers.
    std::vector<int> spread() const {
        const auto cpus = allowed_.by_node();
        std::vector<int> places;
        for (int local_rank = 0; local_rank < worker_count_; ++local_rank) {
            const auto first = static_cast<std::size_t>(local_rank) * cpus.size() /
                               static_cast<std::size_t>(worker_count_);
            places.push_back(cpus[first].node);
        }
        return places;
    }

    void bind(int local_rank, const Seat& seat) {
        auto cpus = cpus_for(seat);
        if (cpus.empty() && mode_ == BindingMode::exclusive) {
            cpus = numbers_of(allowed_.on_node(seat.node));
            if (!cpus.empty()) crowded_.push_back(local_rank);
        }
        if (cpus.empty()) return without_cpus_.push_back(local_rank);
        const auto memory_node = allowed_.only_node_of(cpus);
        plan_.workers[static_cast<std::size_t>(local_rank)] = {std::move(cpus), memory_node};
    }

    CpuList cpus_for(const Seat& seat) const {
        switch (mode_) {
            case BindingMode::node: return numbers_of(allowed_.on_node(seat.node));
            case BindingMode::socket: return allowed_.on_socket_of(seat.node);
            case BindingMode::exclusive: return allowed_.share_of_cores(seat);
            case BindingMode::core_complex: return allowed_.core_complex(seat);
        }
        return {};
    }

    void add_problems(std::size_t gpu_count) {
        if (!without_gpu_.empty())
            plan_.problems.push_back(
                ranks_text(without_gpu_) + " not bound: only " + std::to_string(gpu_count) +
                " GPUs are visible");
        if (!without_cpus_.empty())
            plan_.problems.push_back(
                ranks_text(without_cpus_) +
                " not bound: no CPU near its GPU may be used (affinity mask, cpuset)");
        if (!crowded_.empty())
            plan_.problems.push_back(
                ranks_text(crowded_) +
                " bound to all CPUs of the NUMA node: it has fewer cores than GPUs or workers");
    }

    BindingMode mode_;
    Allowed allowed_;
    int worker_count_;
    BindingPlan plan_;
    CpuList without_gpu_;
    CpuList without_cpus_;
    CpuList crowded_;
};

}  // namespace

std::optional<BindingMode> parse_binding_mode(std::string_view name) {
    for (const auto& [mode, known] : modes)
        if (known == name) return mode;
    return std::nullopt;
}

std::string_view describe(BindingMode mode) {
    for (const auto& [known, name] : modes)
        if (known == mode) return name;
    return {};
}

BindingPlan plan_binding(
    BindingMode mode,
    const Topology& machine,
    const std::optional<std::vector<Gpu>>& gpus,
    int worker_count) {
    return Planning{mode, machine, worker_count}.run(gpus);
}

}  // namespace ddprun::agent
