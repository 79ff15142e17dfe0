// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/rank_order.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

/// "a=0 b=2": group ranks after a round has closed.
std::string ranks_of(const Story& job, const std::string& nodes) {
    std::string text;
    for (const auto& node : words(nodes))
        text += (text.empty() ? "" : " ") + node + "=" +
                std::to_string(job.assignment(node).group_rank);
    return text;
}

/// Without the lines about what is waited for.
Lines without_notes(Lines lines) {
    std::erase_if(
        lines, [](const auto& line) { return line.find(" standby ") != std::string::npos; });
    return lines;
}

}  // namespace

TEST_CASE("a one-node job has its round at once, no lease and no timer") {
    Story job{"1"};

    job.join("a");

    CHECK(
        job.output() ==
        Lines{
            "a welcome incarnation=61000000 lease=0s",
            "running: round 0 complete: 1 node, 2 workers (max nodes reached)",
            "a assignment round=0 group_rank=0/1 rank_base=0 world_size=2 restarts=0 "
            "master=10.0.0.97:20097"});
    CHECK(job.coordinator().next_deadline() == std::nullopt);
    job.started("a");
    job.failed("a");
    CHECK(job.coordinator().next_deadline() == std::nullopt);
}

TEST_CASE("an elastic job waits for the last call, started again when the count falls below MIN") {
    Story job{"2:4"};
    job.join("a");
    job.join("b");
    job.output();

    job.pass(29s, "a b");
    CHECK(without_notes(job.output()) == Lines{});
    CHECK(
        job.status().reason ==
        "last call: 2 of at most 4 nodes ready; the round begins in 1.0 s at the latest");
    job.drop("b");
    job.pass(1s, "a");
    CHECK(
        job.status().reason ==
        "waiting for 1 node (1 of at least 2 ready); the job fails in 570.0 s unless enough nodes "
        "come");
    job.join("c");
    job.output();
    job.pass(29s, "a c");
    CHECK(without_notes(job.output()) == Lines{});
    job.pass(1s, "a c");
    CHECK(ranks_of(job, "a c") == "a=0 c=1");
    CHECK(
        job.status().reason ==
        "round 0 complete: 2 nodes, 4 workers (the last call for more nodes is over)");
}

TEST_CASE("after a round the next one does not wait for a last call") {
    Story job{"2:4"};
    for (const auto* node : {"a", "b", "c"})
        job.join(node);
    job.pass(30s, "a b c");
    job.started("a b c");
    job.failed("a");

    job.ready("a b");
    job.output();
    job.drop("c");
    job.pass(500ms);

    CHECK(ranks_of(job, "a b") == "a=0 b=1");
    CHECK(job.assignment("a").round == 1);
}

TEST_CASE("too few nodes within join_timeout end the job with 80 and the count") {
    Story job{"3"};
    job.join("a");
    job.join("b");
    job.output();

    job.pass(600s, "a b");

    const std::string why =
        "result failed exit_code=80 nobody_joined \"2 of 3 nodes joined within 600 s (a, b)\"";
    CHECK(
        without_notes(job.output()) ==
        Lines{"failed: 2 of 3 nodes joined within 600 s (a, b)", "a " + why, "b " + why});
}

TEST_CASE("nodes that wait are notified of which nodes are there, ever less often") {
    Story job{"4"};
    job.join("a");
    job.join("b");
    job.output();
    const auto note = [](const std::string& left) {
        const auto line =
            " standby missing=2 \"2 of 4 nodes are here (a, b), 2 missing; the job fails in " +
            left + "\"";
        return Lines{"a" + line, "b" + line};
    };

    for (const auto& [pause, left] : std::vector<std::pair<Duration, std::string>>{
             {5s, "595 s"}, {10s, "585 s"}, {30s, "555 s"}, {90s, "465 s"}}) {
        job.pass(pause - 1s, "a b");
        CHECK(job.output() == Lines{});
        job.pass(1s, "a b");
        CHECK(job.output() == note(left));
    }
}

TEST_CASE(
    "a node that comes while others wait is notified five seconds later, the others in turn") {
    Story job{"3"};
    job.join("a");
    job.pass(20s, "a");
    job.join("b");
    job.output();

    job.pass(4s, "a b");
    CHECK(job.output() == Lines{});
    job.pass(1s, "a b");
    CHECK(
        job.output() == Lines{"b standby missing=1 \"2 of 3 nodes are here (a, b), 1 missing; the "
                              "job fails in 575 s\""});
}

TEST_CASE("what waits for a last call is notified of when the round begins") {
    Story job{"1:4"};
    job.join("a");
    job.output();

    job.pass(5s, "a");

    CHECK(
        job.output() ==
        Lines{"a standby \"1 of at most 4 nodes is here (a); the round begins in 25 s at the "
              "latest\""});
}

TEST_CASE("a job that waits counts the nodes of a host, and names missing places if it can") {
    Story job{"4", 3, [](control::Join& join) { join.settings.is_static = true; }};
    job.is_hosted();
    for (const auto& [node, rank] : std::vector<std::pair<std::string, int>>{{"a", 0}, {"b", 2}})
        job.join(node, [rank = rank](control::Join& join) {
            join.node_rank = rank;
            join.node.host = "h";
        });
    job.output();

    job.pass(5s, "a b");

    CHECK(
        job.output().front() ==
        "a standby missing=2 \"2 of 4 nodes are here (h (2)), 2 missing (node ranks 1, 3); the job "
        "fails in 595 s\"");
    job.pass(595s, "a b");
    CHECK(
        job.whole_result("a").root_cause->reason ==
        "2 of 4 nodes joined within 600 s (h (2); missing: node ranks 1, 3)");
}

TEST_CASE("group ranks follow node ranks, then the endpoint's host, then natural host names") {
    Story job{"5"};
    job.lives_at("node1", "10.0.0.1", "10.0.0.1");
    job.join("node10");
    job.join("node2");
    job.join("late", [](control::Join& join) { join.node_rank = 1; });
    job.join("node1");
    job.join("early", [](control::Join& join) { join.node_rank = 0; });

    CHECK(
        ranks_of(job, "early late node1 node2 node10") ==
        "early=0 late=1 node1=2 node2=3 node10=4");
}

namespace {

auto at(int rank) {
    return [rank](control::Join& join) { join.node_rank = rank; };
}

}  // namespace

TEST_CASE("with fixed places each node rank is given once and every node brings one") {
    Story job{"2", 3, [](control::Join& join) { join.settings.is_static = true; }};
    job.is_hosted();
    job.join("b", at(1));
    job.join("nowhere");
    job.join("beyond", at(2));
    job.join("duplicate", at(1));

    const auto output = job.output();
    const auto refusals = std::count_if(output.begin(), output.end(), [](const std::string& line) {
        return line.find("refused") != std::string::npos;
    });
    // Each is answered, and its connection closed.
    CHECK(refusals == 2 * 3);
    const auto names_both = [](const std::string& line) {
        return line.find("node rank 1 of job") != std::string::npos &&
               line.find("is taken by b (pid") != std::string::npos &&
               line.find("asked for by duplicate (pid") != std::string::npos;
    };
    CHECK(std::any_of(output.begin(), output.end(), names_both));

    job.join("a", at(0));
    CHECK(ranks_of(job, "a b") == "a=0 b=1");
}

TEST_CASE(
    "a restarted node with a fixed place asks again until its old incarnation is heard, or gone") {
    Story job{"2", 3, [](control::Join& join) { join.settings.is_static = true; }};
    job.is_hosted();
    job.join("a", at(0));
    job.join("b", at(1));
    job.pass(100ms);
    job.output();
    job.join("b2", at(1));
    const auto output = job.output();
    CHECK(output.front().find("retry") != std::string::npos);

    SUBCASE("it is heard: there are two of them") {
        job.pass(1s, "a b");
        job.join("b3", at(1));
        CHECK(job.output().front().find("of its own") != std::string::npos);
    }
    SUBCASE("it is gone") {
        job.drop("b");
        job.pass(1s, "a");
        job.ready("a");
        job.join("b3", at(1));
        CHECK(ranks_of(job, "a b3") == "a=0 b3=1");
    }
}

TEST_CASE("a daemon cannot serve fixed places, and the two kinds do not mix") {
    Story daemon{"2", 3, [](control::Join& join) { join.settings.is_static = true; }};
    daemon.join("a", [](control::Join& join) { join.node_rank = 0; });
    REQUIRE(daemon.output().size() == 2);

    Story job{"2"};
    job.is_hosted();
    job.join("a");
    job.output();
    job.join("b", [](control::Join& join) {
        join.settings.is_static = true;
        join.node_rank = 1;
    });
    CHECK(
        job.output().front().find(
            "--rdzv-backend is static on b and c10d in the job started on a") != std::string::npos);
}

TEST_CASE("a node rank that two ask for is reported once and arrival decides") {
    Story job{"2"};
    job.join("b", [](control::Join& join) { join.node_rank = 0; });
    job.join("a", [](control::Join& join) { join.node_rank = 0; });

    CHECK(ranks_of(job, "a b") == "a=1 b=0");
    CHECK(
        job.status().reason ==
        "round 0 complete: 2 nodes, 4 workers (max nodes reached); node rank 0 was asked for by b "
        "and by a: the earlier one comes first");
}

TEST_CASE("members keep their order over rounds, holes are closed, newcomers come last") {
    Story job{"2:4"};
    for (const auto* node : {"b", "c", "d"})
        job.join(node);
    job.pass(30s, "b c d");
    CHECK(ranks_of(job, "b c d") == "b=0 c=1 d=2");
    job.started("b c d");

    job.drop("c");
    job.pass(500ms);
    job.join("a");
    job.ready("b d");

    CHECK(ranks_of(job, "b d a") == "b=0 d=1 a=2");
}

TEST_CASE("ranks are prefix sums over unequal nodes, per world and per role") {
    Story job{"3"};
    const auto shape = [](int nproc, std::string role) {
        return [=](control::Join& join) {
            join.nproc = nproc;
            join.role = role;
        };
    };
    job.join("a", shape(3, "trainer"));
    job.join("b", shape(1, "reader"));
    job.join("c", shape(2, "trainer"));

    const auto& a = job.assignment("a");
    const auto& b = job.assignment("b");
    const auto& c = job.assignment("c");
    CHECK(a.rank_base == 0);
    CHECK(b.rank_base == 3);
    CHECK(c.rank_base == 4);
    for (const auto* node : {&a, &b, &c})
        CHECK(node->world_size == 6);
    CHECK(a.role_rank_base == 0);
    CHECK(b.role_rank_base == 0);
    CHECK(c.role_rank_base == 3);
    CHECK(a.role_world_size == 5);
    CHECK(b.role_world_size == 1);
    CHECK(c.role_world_size == 5);
}

TEST_CASE("each member has at most three neighbours, never itself") {
    Story job{"5"};
    for (const auto* node : {"a", "b", "c", "d", "e"})
        job.join(node);

    CHECK(job.assignment("d").neighbours.size() == 3);
    CHECK(job.assignment("d").neighbours[0].nonce == nonce_of("e"));
    CHECK(job.assignment("d").neighbours[1].nonce == nonce_of("a"));
    CHECK(job.assignment("d").neighbours[2].nonce == nonce_of("b"));

    Story pair{"2"};
    pair.join("a");
    pair.join("b");
    CHECK(pair.assignment("a").neighbours.size() == 1);
    CHECK(pair.assignment("a").neighbours[0].nonce == nonce_of("b"));
}

TEST_CASE("a host that connects through the loopback has the server's address for the others") {
    Story job{"2"};
    job.lives_at("a", "127.0.0.1", "127.0.0.1");
    job.lives_at("b", "10.0.0.2", "10.0.0.1");
    job.join("a");
    job.join("b");

    CHECK(job.assignment("a").master_addr == "127.0.0.1");
    CHECK(job.assignment("b").master_addr == "10.0.0.1");
    CHECK(job.assignment("b").neighbours[0].addr == "10.0.0.1");
}

TEST_CASE("a node behind a proxy on its own machine is refused unless it gives its address") {
    Story job{"2"};
    const auto tunnelled = [](control::Join& join) { join.socket_addr = "127.0.0.1:999"; };

    job.join("a", tunnelled);
    CHECK(
        job.output() ==
        Lines{
            "a refused \"this node reaches the rendezvous through 127.0.0.1:999, which the server "
            "sees as 10.0.0.97:5000: other nodes cannot know where it is; give "
            "--local-addr=ADDRESS\"",
            "a closed: refused: this node reaches the rendezvous through 127.0.0.1:999, which the "
            "server sees as 10.0.0.97:5000: other nodes cannot know where it is; give "
            "--local-addr=ADDRESS"});

    job.join("b", [&](control::Join& join) {
        tunnelled(join);
        join.addr = "192.168.1.2";
    });
    job.join("c");
    CHECK(job.assignment("c").master_addr == "192.168.1.2");
}

TEST_CASE("two nodes of one host that differ are distinguished by their pids") {
    Story job{"2"};
    const auto on_h = [](int max, int pid) {
        return [max, pid](control::Join& join) {
            join.node.host = "h";
            join.node.pid = pid;
            join.nodes.max = max;
        };
    };
    job.join("a", on_h(2, 100));
    job.output();
    job.join("b", on_h(4, 101));

    CHECK(job.output().front().starts_with(
        "b refused \"job 'job': --nnodes is 2:4 on h (pid 101) and 2 in the job started on h (pid "
        "100);"));
}

TEST_CASE("a node with other options is refused with both values") {
    const auto refusal = [](const Story::Tweak& tweak) {
        Story job{"2"};
        job.join("a");
        job.output();
        job.join("b", tweak);
        const auto output = job.output();
        return output.empty() ? std::string{} : output.front();
    };

    CHECK(
        refusal([](control::Join& join) { join.nodes.max = 4; }) ==
        "b refused \"job 'job': --nnodes is 2:4 on b and 2 in the job started on a; all nodes must "
        "be started alike\"");
    CHECK(
        refusal([](control::Join& join) { join.max_restarts = 9; }) ==
        "b refused \"job 'job': --max-restarts is 9 on b and 3 in the job started on a; all nodes "
        "must be started alike\"");
    CHECK(
        refusal([](control::Join& join) { join.node.user = 1000; }) ==
        "b refused \"job 'job': the user id is 1000 on b and 0 in the job started on a; all nodes "
        "must be started alike\"");
    CHECK(
        refusal([](control::Join& join) { join.settings.grace = 5s; }) ==
        "b refused \"job 'job': --shutdown-timeout is 5 s on b and 30 s in the job started on a; "
        "all nodes must be started alike\"");
    for (const auto& tweak : std::vector<Story::Tweak>{
             [](control::Join& join) { join.settings.join_timeout = 1s; },
             [](control::Join& join) { join.settings.last_call_timeout = 1s; },
             [](control::Join& join) { join.settings.lease = 1s; },
             [](control::Join& join) { join.settings.late_nodes = control::LateNodes::never; },
             [](control::Join& join) { join.settings.max_losses = 1; }})
        CHECK(refusal(tweak).starts_with("b refused"));
    CHECK(
        refusal([](control::Join& join) {
            join.settings.store_access = control::StoreAccess::members;
        }) ==
        "b refused \"job 'job': --store-access is members on b and direct (as of an older "
        "ddprun) in the job started on a; all nodes must be started alike\"");
    // What may differ.
    CHECK(refusal([](control::Join& join) {
              join.nproc = 7;
              join.role = "reader";
          }) == "b welcome incarnation=61000000 lease=30s");
}

TEST_CASE("a first node that went before the first round binds no other node to its terms") {
    Story job{"2"};
    job.join("a", [](control::Join& join) { join.nodes = {3, 3, 0}; });
    job.drop("a");
    job.pass(500ms);

    job.join("b");
    job.join("c");

    CHECK(job.assignment("c").group_world_size == 2);
}

TEST_CASE("four thousand nodes form a round quickly") {
    Story job{"4000"};
    for (int i = 0; i < 4000; ++i) {
        const auto name = "n" + std::to_string(i);
        job.lives_at(name, "10.1.2.3", "10.0.0.1");
        job.join(name);
    }

    CHECK(job.assignment("n3999").group_rank == 3999);
    CHECK(job.assignment("n0").world_size == 8000);
    job.output();
    job.failed("n17");
    for (int i = 0; i < 4000; ++i)
        job.ready("n" + std::to_string(i));
    CHECK(job.assignment("n0").round == 1);
}

TEST_CASE("rank order says why each is where it is") {
    const auto join_of = [](const char* host, std::optional<int> node_rank = std::nullopt) {
        control::Join join;
        join.node.host = host;
        join.node_rank = node_rank;
        return join;
    };
    const std::array joins{
        join_of("node10"), join_of("z"), join_of("y", 2), join_of("x"), join_of("node2")};
    const std::vector<Candidate> candidates{
        {joins[0], std::nullopt, false, 0},
        {joins[1], 5, false, 1},
        {joins[2], std::nullopt, false, 2},
        {joins[3], std::nullopt, true, 3},
        {joins[4], std::nullopt, false, 4}};

    const auto order = rank_order(candidates);

    const std::vector<Placement> expected{
        {2, "node rank 2 was asked for"},
        {1, "had group rank 5 before"},
        {3, "is the endpoint's host"},
        {4, "by host name and arrival"},
        {0, "by host name and arrival"}};
    CHECK(order.places == expected);
    CHECK(order.warning.empty());
}

TEST_CASE("nodes of one switch have neighbouring ranks, and so have the switches of one row") {
    const auto at = [](const char* host, const char* topology, std::optional<int> node_rank = {}) {
        control::Join join;
        join.node.host = host;
        join.node.topology = topology;
        join.node_rank = node_rank;
        return join;
    };
    struct Row {
        const char* what;
        std::vector<control::Join> joins;
        /// Their group ranks in the round before, by index; -1: a newcomer.
        std::vector<int> before;
        std::vector<Placement> places;
    };
    const std::vector<Row> rows{
        {"without a switch each stays in its place",
         {at("n1", "a"), at("n2", ""), at("n3", "a")},
         {-1, -1, -1},
         {{0, "switch a: by host name and arrival"},
          {2, "switch a: by host name and arrival"},
          {1, "by host name and arrival"}}},
        {"a replacement comes to the members of its switch, not to the end",
         {at("n1", "a"), at("n2", "b"), at("n9", "a")},
         {0, 1, -1},
         {{0, "switch a: had group rank 0 before"},
          {2, "switch a: by host name and arrival"},
          {1, "switch b: had group rank 1 before"}}},
        {"rows of racks",
         {at("n1", "x/1"), at("n2", "y/1"), at("n3", "x/2"), at("n4", "x/1"), at("n5", "x")},
         {-1, -1, -1, -1, -1},
         {{0, "switch x/1: by host name and arrival"},
          {3, "switch x/1: by host name and arrival"},
          {2, "switch x/2: by host name and arrival"},
          {4, "switch x: by host name and arrival"},
          {1, "switch y/1: by host name and arrival"}}},
        {"a place that was asked for counts more",
         {at("n1", "a"), at("n2", "b"), at("n3", "a", 0)},
         {-1, -1, -1},
         {{2, "node rank 0 was asked for"},
          {0, "switch a: by host name and arrival"},
          {1, "switch b: by host name and arrival"}}}};
    for (const auto& row : rows) {
        CAPTURE(row.what);
        std::vector<Candidate> candidates;
        for (std::size_t i = 0; i < row.joins.size(); ++i)
            candidates.push_back(
                {row.joins[i],
                 row.before[i] < 0 ? std::nullopt : std::optional{row.before[i]},
                 false,
                 i});
        CHECK(rank_order(candidates).places == row.places);
    }
}

TEST_CASE("the order of switches looks at eight levels, and each place is given once") {
    std::string deep;
    for (int level = 0; level < 127; ++level)
        deep += std::string{level % 2 == 0 ? "a" : "b"} + "/";
    const auto at = [](const char* host, std::string topology) {
        control::Join join;
        join.node.host = host;
        join.node.topology = std::move(topology);
        return join;
    };
    const std::array joins{at("n1", deep + "x"), at("n2", ""), at("n3", deep + "y"), at("n4", "/")};
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < joins.size(); ++i)
        candidates.push_back({joins[i], std::nullopt, false, i});
    std::vector<std::size_t> order;
    for (const auto& place : rank_order(candidates).places)
        order.push_back(place.candidate);
    CHECK(order == std::vector<std::size_t>{0, 2, 1, 3});
}

namespace {

Story::Tweak in_units(int unit) {
    return [unit](control::Join& join) { join.nodes.unit = unit; };
}

}  // namespace

TEST_CASE("a round has a multiple of the unit of nodes: the others stand by") {
    Story job{"2:6", 3, in_units(2)};
    for (const auto* node : {"a", "b", "c"})
        job.join(node);
    CHECK(
        job.status().reason ==
        "last call: 3 of at most 6 nodes ready, 1 more than a multiple of 2; the round begins in "
        "30.0 s at the latest");
    job.pass(5s, "a b c");
    CHECK(
        job.output().back() ==
        "c standby \"3 of at most 6 nodes are here (a, b, c), 1 more than a multiple of 2; the "
        "round begins in 25 s at the latest\"");
    job.pass(25s, "a b c");

    CHECK(ranks_of(job, "a b") == "a=0 b=1");
    CHECK(job.assignment("a").group_world_size == 2);
    CHECK(
        job.output().back() ==
        "c standby \"the job runs with 2 nodes and grows by 2 at a time (--node-unit): 1 more "
        "needed\"");
}

TEST_CASE("after a loss whole units go on, and a replacement brings the rest back") {
    Story job{"2:4", 3, in_units(2)};
    job.run("a b c d");
    job.drop("b");
    job.pass(500ms);
    job.ready("a c d");

    CHECK(job.assignment("a").group_world_size == 2);
    CHECK(ranks_of(job, "a c") == "a=0 c=1");
    job.started("a c", 1);
    job.pass(20s, "a c d");
    CHECK(job.status().round == 1);
    job.join("e");
    job.pass(1s, "a c d e");
    job.ready("a c", 1);
    CHECK(job.assignment("e").group_world_size == 4);
}

TEST_CASE("nodes of different units are not in one job") {
    Story job{"2:4", 3, in_units(2)};
    job.join("a");
    job.output();
    job.join("b", [](control::Join& join) { join.nodes.unit.reset(); });
    CHECK(
        job.output().front().find(
            "--node-unit is 1 on b and 2 in the job started on a; all nodes must be started "
            "alike") != std::string::npos);
}

TEST_CASE("the status says why a node has its group rank") {
    Story job{"2", 3};
    job.join("b");
    job.join("a", [](control::Join& join) { join.node_rank = 0; });

    const auto nodes = job.status().nodes;
    REQUIRE(nodes.size() == 2);
    CHECK(nodes[0].rank_because == "node rank 0 was asked for");
    CHECK(nodes[1].rank_because == "by host name and arrival");
}

TEST_CASE("host names are compared in natural order") {
    CHECK(comes_before_naturally("node2", "node10"));
    CHECK_FALSE(comes_before_naturally("node10", "node2"));
    CHECK(comes_before_naturally("r1n10", "r2n1"));
    CHECK(comes_before_naturally("node", "node1"));
    CHECK_FALSE(comes_before_naturally("node02", "node2"));
    CHECK_FALSE(comes_before_naturally("node2", "node02"));
    CHECK(comes_before_naturally("7.9", "7.10"));
}
