// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/native_stacks.hpp"

#include "rendezvous/base/text.hpp"

namespace ddprun::launcher::ctl {

std::string_view name_of(NativeTool tool) {
    return tool == NativeTool::gdb ? "gdb" : "py-spy";
}

std::vector<std::string> command_of(NativeTool tool, int pid) {
    const auto process = std::to_string(pid);
    if (tool == NativeTool::py_spy) return {"py-spy", "dump", "--native", "--pid", process};
    return {
        "gdb",
        "-nx",
        "-batch",
        "-iex",
        "set debuginfod enabled off",  // it would download for minutes; unknown before gdb 12
        "-iex",
        "set width 0",
        "-iex",
        "set print frame-arguments none",
        "-p",
        process,
        "-ex",
        "thread apply all -ascending bt 64"};
}

std::string stacks_in(std::string_view output) {
    constexpr std::string_view beginning = "Thread ";
    constexpr std::string_view end = "[Inferior ";  // gdb leaves the process
    std::string text;
    bool has_begun = false;
    for (const auto line : split(output, '\n')) {
        has_begun = has_begun || line.starts_with(beginning);
        if (!has_begun || line.starts_with(end)) continue;
        text += std::string{line} + "\n";
    }
    while (text.ends_with("\n\n"))
        text.pop_back();
    return text;
}

std::string problem_of(NativeTool tool, std::string_view errors) {
    const auto last = last_line(errors);
    return std::string{name_of(tool)} + ": " +
           (last.empty() ? "it has said nothing" : std::string{last});
}

}  // namespace ddprun::launcher::ctl
