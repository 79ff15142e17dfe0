// SPDX-License-Identifier: Apache-2.0
#include "launcher/program_lines.hpp"

#include "launcher/run_program.hpp"

#include <chrono>
#include <sstream>
#include <utility>

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

/// nvidia-smi hangs when its driver does.
constexpr ProgramLimits limits_of_facts{10s, 64 * 1024};

}  // namespace

std::string output_of(const std::vector<std::string>& command) {
    auto end = run_program(command, limits_of_facts);
    return end.is_success ? std::move(end.output) : std::string{};
}

int count_lines_of(const std::vector<std::string>& command, std::string_view beginning) {
    int count = 0;
    std::istringstream lines{output_of(command)};
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(beginning)) ++count;
    return count;
}

}  // namespace ddprun::launcher
