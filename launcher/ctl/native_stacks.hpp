// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// The native stacks of workers, for `ddprunctl stacks --native`: which program shows them, and
/// what of its output. The program stops a worker while it reads.
namespace ddprun::launcher::ctl {

enum class NativeTool : std::uint8_t { py_spy, gdb };

/// In the order in which they are tried.
inline constexpr NativeTool native_tools[]{NativeTool::py_spy, NativeTool::gdb};

std::string_view name_of(NativeTool tool);

/// The command that prints the stacks of all threads of the process.
std::vector<std::string> command_of(NativeTool tool, int pid);

/// What a program has shown of one worker.
struct NativeStacks {
    /// The program; empty: none has succeeded.
    std::string by = {};
    /// All threads, with a line for each frame.
    std::string text = {};
    /// With no program: why.
    std::string problem = {};

    bool operator==(const NativeStacks&) const = default;
};

/// By rank.
using NativeByRank = std::map<int, NativeStacks>;

/// The part of the output that has stacks: without what the program says about itself. Empty: there
/// is none.
std::string stacks_in(std::string_view output);

/// "gdb: ptrace: Operation not permitted": the last line of what the program has written.
std::string problem_of(NativeTool tool, std::string_view errors);

}  // namespace ddprun::launcher::ctl
