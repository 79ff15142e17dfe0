// SPDX-License-Identifier: Apache-2.0
// Several endpoints: nodes that start find the job at another one while the first host is gone.
#include "tests/process/ddprun/voting_nodes.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;
using std::chrono::seconds;

namespace {

/// The first two hosts.
Words listed(const VotingHosts& job) {
    return {"--rdzv-endpoint=" + job.hosts[0].address + "," + job.hosts[1].address, "--insecure"};
}

}  // namespace

TEST_CASE("several endpoints: a new node finds the job while the first host is gone") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job{4};
    const auto options = short_lease + listed(job);
    auto nodes = start_voters(dir, job, options);

    kill_node(nodes[0]);
    wait_until_others_go_on(nodes);
    nodes[0].wait_for_exit();
    nodes.push_back(job.start_on(job.hosts[3], dir, options, until_go(dir)));

    let_next_three_end(dir, nodes);
    CHECK(no_descendants_left());
}

TEST_CASE("several endpoints: the first host started again asks the others and begins no job") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    const auto options = short_lease + listed(job);
    auto nodes = start_voters(dir, job, options);

    // The others have not elected a leader when it is back.
    restart(dir, job, nodes, {0}, options);

    let_next_three_end(dir, nodes);
    CHECK_FALSE(contains(nodes.back().err(), "rendezvous.stepped_down"));
    // It has found the first leadership in the record, until that was over, but began none.
    const std::string begun = "election.effect is=\"elected, epoch 1\"";
    CHECK(contains(nodes[0].err(), begun));
    CHECK_FALSE(contains(nodes.back().err(), begun));
    CHECK(no_descendants_left());
}

TEST_CASE("several endpoints: the first node begins the job, whichever is started first") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
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
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
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
