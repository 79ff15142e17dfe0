// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "tests/process/ddprun/elected_nodes.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/network_hosts.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

/// Jobs whose own nodes vote about the leader.
namespace ddprun::test {

/// Each node is on a host of its own, and the first one serves.
class VotingHosts {
public:
    explicit VotingHosts(std::size_t count = 3) : hosts{count} {}
    static std::string why_not() { return NetworkHosts::why_not(); }

    /// Starts the next node.
    Running start_node(const TempDir& dir, const Words& more, const std::string& script) {
        return start_on(hosts[next_++], dir, more, script);
    }
    Running start_on(
        const NetworkPair::Host& host,
        const TempDir& dir,
        const Words& more,
        const std::string& script) const {
        Running::Options how;
        how.arguments =
            Words{
                "--nnodes=2:3",
                "--rdzv-id=tested",
                "--rdzv-endpoint=" + hosts[0].address + ":" +
                    std::to_string(limits::default_rendezvous_port),
                "--log-level=debug"} +
            more +
            Words{"--no-python", dir.write_script("worker" + host.name, "#!/bin/sh\n" + script)};
        // For the secret.
        how.environment["HOME"] = dir.path().string();
        how.network_namespace = host.name;
        how.host_name = host.name;
        return Running{program("ddprun"), how};
    }

    NetworkHosts hosts;

private:
    std::size_t next_ = 0;
};

/// The shortest that these jobs may have, 12 s.
inline const Words short_lease{"--rdzv-conf=keep_alive_interval=4,keep_alive_max_attempt=3"};

/// Starts three nodes, and waits until all of them vote. Until then only the first one does, and
/// the job ends with it.
inline std::vector<Running> start_voters(
    const TempDir& dir, VotingHosts& job, const Words& options) {
    auto nodes = start_three(dir, job, options);
    nodes[0].wait_for_line("rendezvous.voters voters=\"[^ ]+ [^ ]+ [^ ]+\"");
    return nodes;
}

/// Both processes of the node at once, as when its host is gone.
inline void kill_node(const Running& node) {
    const int agent = agent_of(node);
    ::kill(node.pid(), SIGKILL);
    ::kill(agent, SIGKILL);
}

/// Kills these nodes, and starts each of them again on its host: they come last.
inline void restart(
    const TempDir& dir,
    const VotingHosts& job,
    std::vector<Running>& nodes,
    const std::vector<std::size_t>& killed,
    const Words& options) {
    for (const auto i : killed) {
        kill_node(nodes[i]);
        nodes[i].wait_for_exit();
    }
    for (const auto i : killed)
        nodes.push_back(job.start_on(job.hosts[i], dir, options, until_go(dir)));
}

inline void let_end(const TempDir& dir, std::vector<Running>& nodes, std::size_t first = 0) {
    dir.write("go", "");
    for (auto i = first; i < nodes.size(); ++i) {
        nodes[i].wait_for_line("done in");
        CHECK(nodes[i].wait_for_code() == 0);
    }
}

/// The nodes after the first one are in another round of three, which then ends.
inline void let_next_three_end(const TempDir& dir, std::vector<Running>& nodes) {
    for (std::size_t i = 1; i < nodes.size(); ++i)
        nodes[i].wait_for_line("up 3 in [1-9]", std::chrono::seconds{90});
    let_end(dir, nodes, 1);
}

}  // namespace ddprun::test
