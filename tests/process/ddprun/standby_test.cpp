// SPDX-License-Identifier: Apache-2.0
// Three nodes with the default of --rdzv-standby: the first server is placed, and when its host is
// gone the nodes elect another one.
#include "tests/process/ddprun/voting_nodes.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <regex>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;
using std::chrono::seconds;

TEST_CASE("standby: the node that serves is killed, another one leads, and it can join again") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    Words security{"--insecure"};
    SUBCASE("without a secret") {}
    SUBCASE("with a secret") {
        security = {"--secure"};
    }
    const TempDir dir;
    VotingHosts job;
    auto nodes = start_voters(dir, job, short_lease + security);

    kill_node(nodes[0]);

    wait_until_others_go_on(nodes);
    // It is a change for them, though they had not elected the first one.
    for (std::size_t i = 1; i < nodes.size(); ++i)
        CHECK(std::regex_search(
            nodes[i].err(), std::regex{"warning .*rendezvous.leader_changed .*epoch=2"}));
    nodes[0].wait_for_exit();

    // It would be the first server of another job if the leader did not claim the endpoint.
    nodes.push_back(job.start_on(job.hosts[0], dir, short_lease + security, until_go(dir)));

    nodes.back().wait_for_line("rendezvous.stepped_down");
    let_next_three_end(dir, nodes);
    CHECK(no_descendants_left());
}

TEST_CASE("standby: the host that serves is cut off, and is a part of the job again later") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    auto nodes = start_voters(dir, job, short_lease + Words{"--insecure"});
    const int worker = nodes[0].wait_for_number("pid ");

    job.hosts.cut(0);

    wait_until_others_go_on(nodes);
    // It has ended before its rank was given away.
    CHECK(is_gone(worker, seconds{0}));
    CHECK_FALSE(nodes[0].has_exited());

    job.hosts.heal(0);

    for (auto& node : nodes)
        node.wait_for_line("up 3 in [1-9]", seconds{90});
    let_end(dir, nodes);
    CHECK(no_descendants_left());
}

TEST_CASE(
    "standby: the node that serves is started again before the others have elected a leader") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    const auto options = short_lease + Words{"--insecure"};
    auto nodes = start_voters(dir, job, options);

    kill_node(nodes[0]);
    nodes[0].wait_for_exit();
    nodes.push_back(job.start_on(job.hosts[0], dir, options, until_go(dir)));

    nodes.back().wait_for_line("rendezvous.stepped_down .*elected another leader");
    // It had begun a job of its own, which none of the others has joined.
    CHECK_FALSE(contains(nodes.back().err(), "round.started"));
    let_next_three_end(dir, nodes);
    CHECK(no_descendants_left());
}

TEST_CASE(
    "standby: most voters are lost at once, the last one joins those that are started again") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    // Without the last one there is no round, so it is let in when its voters have had their time.
    const auto options = short_lease + Words{"--insecure", "--nnodes=3", "--shutdown-timeout=1"};
    auto nodes = start_voters(dir, job, options);

    restart(dir, job, nodes, {0, 1}, options);

    nodes[2].wait_for_line("rendezvous.record_replaced", seconds{60});
    // It votes about the other record, as the new nodes do.
    nodes[3].wait_for_line("rendezvous.voters voters=\"[^ ]+ [^ ]+ [^ ]+\"", seconds{60});
    for (std::size_t i = 3; i < nodes.size(); ++i)
        nodes[i].wait_for_line("up 3 in", seconds{90});
    let_end(dir, nodes, 2);
    CHECK(no_descendants_left());
}

TEST_CASE(
    "standby: most voters are killed, and those that are started again join the one that served") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    const auto options = short_lease + Words{"--insecure", "--shutdown-timeout=1"};
    auto nodes = start_voters(dir, job, options);

    restart(dir, job, nodes, {1, 2}, options);

    // It knows that no other leader can follow, since nothing listens on the ports of the others.
    // The new nodes may have joined before its leadership was over.
    nodes[0].wait_for_line("rendezvous.record_replaced", seconds{60});
    nodes[0].wait_for_line("up 3 in [1-9]", seconds{90});
    for (std::size_t i = 3; i < nodes.size(); ++i)
        nodes[i].wait_for_line("up 3 in", seconds{90});
    let_end(dir, nodes, 3);
    nodes[0].wait_for_line("done in");
    CHECK(nodes[0].wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("standby: SIGTERM on the node that serves: it leaves, and the others go on") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    auto nodes = start_voters(dir, job, short_lease + Words{"--insecure"});

    nodes[0].signal(SIGTERM);

    wait_until_others_go_on(nodes);
    CHECK(nodes[0].wait_for_code() != 0);
    let_end(dir, nodes, 1);
    CHECK(no_descendants_left());
}

TEST_CASE("standby: SIGINT on any node ends the job, and each node exits at once") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    std::size_t interrupted = 0;
    SUBCASE("on the node that serves") {}
    SUBCASE("on another one") {
        interrupted = 1;
    }
    const TempDir dir;
    VotingHosts job;
    auto nodes = start_voters(
        dir, job, {"--insecure", "--rdzv-conf=keep_alive_interval=60,keep_alive_max_attempt=5"});

    nodes[interrupted].signal(SIGINT);

    for (auto& node : nodes)
        CHECK(node.wait_for_code() == 128 + SIGINT);
    // Also those that have left are released.
    CHECK_FALSE(
        contains(nodes[0].err().substr(nodes[0].err().find("SIGINT")), "rendezvous.voters"));
    CHECK(no_descendants_left());
}

TEST_CASE("standby: of two nodes the one that is left says what would have saved the job") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    const Words options{"--insecure", "--nnodes=2", "--rdzv-conf=keep_alive_interval=1"};
    std::vector<Running> nodes;
    for (int i = 0; i < 2; ++i)
        nodes.push_back(job.start_node(dir, options, until_go(dir)));
    for (auto& node : nodes)
        node.wait_for_line("up 2 in 0");

    kill_node(nodes[0]);

    CHECK(nodes[1].wait_for_code() == 81);
    const auto report = std::regex_replace(nodes[1].err(), std::regex{"\\n +"}, " ");
    CAPTURE(report);
    CHECK(contains(
        report,
        "survives the loss of " + job.hosts[0].address +
            " with --rdzv-witness=HOST on both nodes"));
    CHECK(no_descendants_left());
}

TEST_CASE("standby: while nodes of two hosts are there the job ends with the one that serves") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    const Words options{
        "--insecure",
        "--rdzv-conf=keep_alive_interval=60,keep_alive_max_attempt=5,last_call_timeout=1"};
    // A worker that is to stop waits for the file `end`.
    const auto script = "trap 'while [ ! -e " + dir.path().string() +
                        "/end ]; do sleep 0.1; done; exit 1' INT TERM\n" + until_go(dir);
    std::vector<Running> nodes;
    for (int i = 0; i < 2; ++i)
        nodes.push_back(job.start_node(dir, options, script));
    for (auto& node : nodes)
        node.wait_for_line("up 2 in 0");

    SUBCASE("it is killed") {
        dir.write("end", "");
        kill_node(nodes[0]);
        CHECK(nodes[1].wait_for_code() == 81);
        const auto report = std::regex_replace(nodes[1].err(), std::regex{"\\n +"}, " ");
        CAPTURE(report);
        CHECK(contains(report, "another node can serve once nodes of three hosts are in a round"));
    }
    SUBCASE("it gets SIGINT three times, and so ends before the other one's workers") {
        nodes[0].signal(SIGINT);
        nodes[0].wait_for_line("job.interrupted");
        nodes[0].signal(SIGINT);
        // Until its descendants are gone too, a SIGINT only kills them again.
        nodes[0].wait_for_line("worker.exited");
        nodes[0].wait_for_line("agent.effect is=\"?send link=[0-9]+ ready");
        nodes[0].signal(SIGINT);
        nodes[0].wait_for_line("agent.effect is=\"?finish");
        dir.write("end", "");
        for (auto& node : nodes)
            CHECK(node.wait_for_code() == 128 + SIGINT);
    }
    SUBCASE("it gets SIGTERM") {
        dir.write("end", "");
        nodes[0].signal(SIGTERM);
        for (auto& node : nodes)
            CHECK(node.wait_for_code() == 128 + SIGTERM);
    }
    CHECK(no_descendants_left());
}

TEST_CASE("standby: all workers succeed, and each node ends at once") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    VotingHosts job;
    // A node that waited for the end of a lease would be too late for the test.
    auto nodes = start_voters(
        dir, job, {"--insecure", "--rdzv-conf=keep_alive_interval=60,keep_alive_max_attempt=5"});

    let_end(dir, nodes);
    CHECK(no_descendants_left());
}
