// SPDX-License-Identifier: Apache-2.0
// `ddprunctl resize`. All nodes are on this machine.
#include "tests/process/ddprun/ctl.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::test;

namespace {

/// A worker that reports SIGTERM, and ends only after it has written a second line.
const std::string polite =
    "trap 'echo got TERM in round $DDPRUN_ROUND; echo saved; exit 0' TERM\n"
    "echo world $WORLD_SIZE round $DDPRUN_ROUND\n"
    "mkfifo \"$0.$$\" && exec 3<>\"$0.$$\"\n"
    "while :; do read -r line <&3; done";

/// A job whose first node has the server.
struct ResizedJob {
    std::string nnodes;
    TempDir dir = {};
    Rendezvous rendezvous = {};
    std::string id = fresh_id();

    Running node(bool is_host) const {
        return start_job(
            dir,
            rendezvous.options(
                {"--rdzv-id=" + id,
                 "--nnodes=" + nnodes,
                 std::string{"--rdzv-conf=last_call_timeout=2,is_host="} + (is_host ? "1" : "0")}),
            polite);
    }
    Json shown() const { return Json::parse(ctl({"status", id, "--json"}).out)["job"]; }
};

}  // namespace

TEST_CASE("a job of two nodes shrinks to one by a command, and grows again") {
    const ResizedJob job{"2"};
    auto a = job.node(true);
    auto b = job.node(false);
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");

    Running shrink{program("ddprunctl"), {"resize", job.id, "1"}};
    const auto pid = std::to_string(shrink.pid());
    CHECK(shrink.wait_for_code() == 0);
    for (auto* node : {&a, &b}) {
        node->wait_for_line("got TERM in round 0");
        node->wait_for_line("saved");
    }
    // Either node may have the first group rank.
    const auto is_first = [&](const Running& node) {
        const auto shown = job.shown();
        for (const auto& one : shown["nodes"])
            if (one["pid"] == node.pid()) return one["group_rank"] == 0;
        return false;
    };
    REQUIRE(holds_within(fact_timeout, [&] { return job.shown()["round"] == 1; }));
    auto& first = is_first(a) ? a : b;
    auto& other = &first == &a ? b : a;
    const std::string about_server =
        &first == &a ? "" : ", and with them the node that serves the rendezvous: do not end it";
    CHECK(contains(
        shrink.out(),
        job.id +
            ": --nnodes=1: the job restarts with 1 node instead of 2; the highest group ranks "
            "stand by" +
            about_server + "\n"));
    first.wait_for_line("world 1 round 1");
    other.wait_for_line("node.stood_by");
    const auto page = job.shown();
    CHECK(page["restarts"]["used"] == 0);
    CHECK(page["nodes"].size() == 2);

    // The node that was left over has not ended: it gets its place back.
    CHECK(ctl({"resize", job.id, "2"}).code == 0);
    first.wait_for_line("world 2 round 2");
    other.wait_for_line("world 2 round 2");
    CHECK(job.shown()["restarts"]["used"] == 0);

    const auto refused = ctl({"resize", job.id, "3:4"});
    CHECK(refused.code == 1);
    CHECK(contains(refused.err, "--nnodes=3:4 needs 3 nodes, and there are 2"));
    CHECK(ctl({"resize", job.id, "4:3"}).code == 2);
    CHECK(ctl({"stop", job.id}).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(b.wait_for_code() == 143);
    CHECK(contains(a.err() + b.err(), "resized to --nnodes=1 by ddprunctl (user "));
    CHECK(contains(a.err() + b.err(), ", pid " + pid + " on "));
    CHECK(no_descendants_left());
}

TEST_CASE("a late node with the first size joins a job that grows by a command") {
    const ResizedJob job{"2"};
    auto a = job.node(true);
    auto b = job.node(false);
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");
    CHECK(
        contains(ctl({"resize", job.id, "1:3"}).out, "--nnodes=1:3: the job goes on with 2 nodes"));

    auto c = job.node(false);
    for (auto* node : {&a, &b, &c})
        node->wait_for_line("world 3 round 1");
    CHECK(listed(job.id).front()["nnodes"] == "1:3");
    CHECK(ctl({"stop", job.id}).code == 0);
    for (auto* node : {&a, &b, &c})
        CHECK(node->wait_for_code() == 143);
    CHECK(no_descendants_left());
}
