// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/support/free_port.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

/// Helpers for tests of the whole program: a job of one node, a node of a job.
namespace ddprun::test {

using Words = std::vector<std::string>;

inline Words operator+(Words left, const Words& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

/// `ddprun OPTIONS --no-python SCRIPT`; the script is a shell program of its own file, because
/// `$$` in an argument is one dollar.
inline Running start_job(const TempDir& dir, const Words& options, const std::string& script) {
    static int number = 0;
    const auto path =
        dir.write_script("worker" + std::to_string(number++), "#!/bin/sh\n" + script + "\n");
    return Running{program("ddprun"), options + Words{"--no-python", path}};
}

inline Running one_node(const TempDir& dir, const Words& options, const std::string& script) {
    return start_job(dir, Words{"--standalone"} + options, script);
}

/// The keeper has one child: the agent it forked.
inline int agent_of(const Running& keeper) {
    const auto pid = std::to_string(keeper.pid());
    return std::stoi(read_file("/proc/" + pid + "/task/" + pid + "/children"));
}

/// The endpoint of the rendezvous of one job, on this machine's loopback.
struct Rendezvous {
    std::string endpoint = "127.0.0.1:" + std::to_string(free_port());

    Words options(const Words& more) const {
        return Words{"--rdzv-backend=c10d", "--rdzv-id=tested", "--rdzv-endpoint=" + endpoint} +
               more;
    }
};

inline Words sorted_lines(const std::string& text) {
    std::istringstream stream(text);
    Words lines;
    for (std::string line; std::getline(stream, line);)
        lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
}

inline bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

/// Runs until it gets a signal, without a child of its own.
inline const std::string wait_for_ever = "exec tail -f /dev/null";

}  // namespace ddprun::test
