// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/read_native.hpp"

#include "launcher/run_program.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace ddprun::launcher::ctl {
namespace {

using namespace std::chrono_literals;

/// gdb reads the symbols of all libraries of a worker first, which takes 20 s for PyTorch on a busy
/// machine.
constexpr ProgramLimits limits_of_stacks{120s, std::size_t{4} * 1024 * 1024};
constexpr ProgramLimits limits_of_version{10s, 64 * 1024};

NativeStacks read(int pid, const std::vector<NativeTool>& tools) {
    std::string problem;
    for (const auto tool : tools) {
        const auto end = run_program(command_of(tool, pid), limits_of_stacks);
        auto text = end.is_success ? stacks_in(end.output) : std::string{};
        if (!text.empty()) return {std::string{name_of(tool)}, std::move(text)};
        problem += (problem.empty() ? "" : "; ") + problem_of(tool, end.errors);
    }
    return {{}, {}, std::move(problem)};
}

}  // namespace

std::vector<NativeTool> native_tools_here() {
    std::vector<NativeTool> tools;
    for (const auto tool : native_tools)
        if (run_program({std::string{name_of(tool)}, "--version"}, limits_of_version).is_success)
            tools.push_back(tool);
    return tools;
}

NativeByRank read_native(
    const std::vector<control::RankReport>& ranks, const std::vector<NativeTool>& tools) {
    NativeByRank all;
    for (const auto& view : ranks)
        if (view.stack) all[view.rank] = read(view.stack->pid, tools);
    return all;
}

}  // namespace ddprun::launcher::ctl
