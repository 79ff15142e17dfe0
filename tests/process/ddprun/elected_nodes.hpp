// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/ddprun/job.hpp"

#include <chrono>
#include <string>
#include <vector>

/// Jobs whose nodes elect the server, by whatever engine.
namespace ddprun::test {

/// The workers end when the file `go` exists.
inline std::string until_go(const TempDir& dir) {
    return "echo pid $$\necho up $WORLD_SIZE in $DDPRUN_ROUND\nwhile [ ! -e " +
           dir.path().string() + "/go ]; do sleep 0.1; done\necho done in $DDPRUN_ROUND\n";
}

/// Starts three nodes, of which the first leads, and waits until all run.
template <class Engine>
std::vector<Running> start_three(const TempDir& dir, Engine& engine, const Words& options) {
    std::vector<Running> nodes;
    nodes.push_back(engine.start_node(dir, options, until_go(dir)));
    nodes[0].wait_for_line("rendezvous.leader_changed .*epoch=1");
    for (int i = 0; i < 2; ++i)
        nodes.push_back(engine.start_node(dir, options, until_go(dir)));
    for (auto& node : nodes)
        node.wait_for_line("up 3 in 0");
    return nodes;
}

/// Waits until the other nodes continue without the first: under the next leader, and then in
/// another round.
inline void wait_until_others_go_on(std::vector<Running>& nodes) {
    using std::chrono::seconds;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        nodes[i].wait_for_line("rendezvous.leader_changed .*epoch=2", seconds{60});
        nodes[i].wait_for_line("up 2 in", seconds{90});
    }
}

}  // namespace ddprun::test
