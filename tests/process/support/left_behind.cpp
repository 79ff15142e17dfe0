// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/left_behind.hpp"

#include "agent/process/descendants.hpp"
#include "tests/process/support/wait.hpp"

#include <csignal>
#include <fstream>

namespace ddprun::test {

std::string left_behind() {
    agent::reap_orphans({});
    std::string names;
    for (const auto& process : agent::list_descendants()) {
        if (process.state == 'Z') continue;
        names += (names.empty() ? "" : ", ") + process.describe();
    }
    return names;
}

bool no_descendants_left(std::chrono::seconds deadline) {
    return holds_within(deadline, [] { return left_behind().empty(); });
}

bool is_gone(int pid, std::chrono::seconds deadline) {
    return holds_within(deadline, [&] {
        std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
        std::string text;
        if (!std::getline(file, text)) return true;
        const auto name_end = text.rfind(") ");
        return name_end != std::string::npos && text.compare(name_end + 2, 1, "Z") == 0;
    });
}

bool has_pending_signal(int pid, int signal) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    const std::string label = "ShdPnd:";
    for (std::string line; std::getline(file, line);) {
        if (line.rfind(label, 0) != 0) continue;
        const auto pending = std::stoull(line.substr(label.size()), nullptr, 16);
        return (pending >> (signal - 1) & 1U) != 0;
    }
    return false;
}

}  // namespace ddprun::test
