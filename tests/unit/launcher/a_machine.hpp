// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolve/job_spec.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// The input of `resolve` in tests. Two files exist: the python in PATH, and train.py, which cannot
/// be executed.
inline SystemInfo a_machine(const Environment& environment = {}) {
    SystemInfo system;
    system.environment = environment;
    system.environment.try_emplace("PATH", "/usr/bin");
    system.environment.try_emplace("HOME", "/home/user");
    system.own_path = "/usr/local/bin/ddprun";
    system.host_name = "node1";
    system.cpu_count = 12;
    system.interfaces = {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.7"}};
    system.fresh_id = *Nonce::parse("00112233445566778899aabbccddeeff");
    system.look_at = [](const std::string& path) {
        if (path == "/usr/bin/python3") return PathLook{true, false, true, true};
        if (path == "train.py") return PathLook{true, false, true, false};
        return PathLook{};
    };
    return system;
}

/// The job of `ddprun WORDS... train.py` with these variables, on that machine.
inline Result<JobSpec> resolved_with(std::vector<std::string> words, const Environment& variables) {
    words.emplace_back("train.py");
    const auto system = a_machine(variables);
    const auto options = parse_options(words, system.environment);
    if (!options) return options.error();
    return resolve(*options, system);
}

}  // namespace ddprun::launcher
