// SPDX-License-Identifier: Apache-2.0
// Several endpoints: nodes that start find the job at another one while the first host is gone.
#include "tests/process/ddprun/voting_nodes.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;
using std::chrono::seconds;

namespace {

/// The first two hosts.
Words listed(const ThreeHosts& job) {
    return {"--rdzv-endpoint=" + job.hosts[0].address + "," + job.hosts[1].address, "--insecure"};
}

}  // namespace

TEST_CASE("several endpoints: a new node finds the job while the first host is gone") {
    if (const auto reason = ThreeHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ThreeHosts job{4};
    const auto options = short_lease + listed(job);
    auto nodes = start_voters(dir, job, options);

    kill_node(nodes[0]);
    wait_until_others_go_on(nodes);
    nodes[0].wait_for_exit();
    nodes.push_back(job.start_on(job.hosts[3], dir, options, until_go(dir)));

    for (std::size_t i = 1; i < nodes.size(); ++i)
        nodes[i].wait_for_line("up 3 in [1-9]", seconds{90});
    let_end(dir, nodes, 1);
    CHECK(no_descendants_left());
}

TEST_CASE("several endpoints: the first host started again asks the others and begins no job") {
    if (const auto reason = ThreeHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ThreeHosts job;
    const auto options = short_lease + listed(job);
    auto nodes = start_voters(dir, job, options);

    // The others have not elected a leader when it is back.
    restart(dir, job, nodes, {0}, options);

    for (std::size_t i = 1; i < nodes.size(); ++i)
        nodes[i].wait_for_line("up 3 in [1-9]", seconds{90});
    let_end(dir, nodes, 1);
    CHECK_FALSE(contains(nodes.back().err(), "rendezvous.stepped_down"));
    CHECK_FALSE(contains(nodes.back().err(), "rendezvous.leader_changed epoch=1"));
    CHECK(no_descendants_left());
}

TEST_CASE("several endpoints: the first node begins the job, whichever is started first") {
    if (const auto reason = ThreeHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ThreeHosts job;
    const auto options = short_lease + listed(job);
    std::vector<Running> nodes;
    for (const std::size_t i : {2, 1}) {
        nodes.push_back(job.start_on(job.hosts[i], dir, options, until_go(dir)));
        nodes.back().wait_for_line("node.stood_by|rendezvous.waited", seconds{30});
    }

    nodes.push_back(job.start_on(job.hosts[0], dir, options, until_go(dir)));

    nodes.back().wait_for_line("rendezvous.leader_changed .*epoch=1");
    for (auto& node : nodes)
        node.wait_for_line("up [23] in", seconds{90});
    let_end(dir, nodes);
    CHECK(no_descendants_left());
}

TEST_CASE("several endpoints: with a silent one the first node waits for it, and says so") {
    if (const auto reason = ThreeHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    ThreeHosts job;
    job.hosts.cut(1);
    auto node = job.start_on(job.hosts[0], dir, short_lease + listed(job), until_go(dir));

    node.wait_for_line(
        "rendezvous.waited .*endpoint=\"?" + job.hosts[0].address + ":29400,", seconds{30});
    CHECK_FALSE(contains(node.err(), "rendezvous.leader_changed"));

    job.hosts.heal(1);

    node.wait_for_line("rendezvous.leader_changed .*epoch=1", seconds{30});
    node.signal(SIGINT);
    CHECK(node.wait_for_code() == 128 + SIGINT);
    CHECK(no_descendants_left());
}
