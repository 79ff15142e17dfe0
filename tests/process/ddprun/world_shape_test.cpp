// SPDX-License-Identifier: Apache-2.0
// What --node-unit and --topology decide: how many nodes a round has, and which are neighbours.
#include "tests/process/ddprun/http_get.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

using namespace ddprun::test;

namespace {

Running node_in_rack(const std::string& script, const Words& options, const std::string& rack) {
    Running::Options how;
    how.environment = {{"RACK", rack}};
    how.arguments = options + Words{"--no-python", script};
    return Running(program("ddprun"), how);
}

}  // namespace

TEST_CASE("nodes of one rack have neighbouring ranks, and /status names the rack") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto script = dir.write_script(
        "work", "#!/bin/sh\necho node $GROUP_RANK in $RACK\n" + wait_for_ever + "\n");
    const auto options = rendezvous.options({"--nnodes=4", "--topology=env:RACK"});
    std::vector<Running> nodes;
    for (const auto* rack : {"row1/a", "row1/b", "row1/a", "row1/b"})
        nodes.push_back(node_in_rack(script, options, rack));
    for (auto& node : nodes)
        node.wait_for_line("node ");

    const auto status = http_get(rendezvous.endpoint, "/status");
    nodes.front().signal(SIGINT);
    Words lines;
    for (auto& node : nodes) {
        CHECK(node.wait_for_code() == 130);
        lines.push_back(node.out());
    }
    std::sort(lines.begin(), lines.end());

    const auto rack_of = [&](std::size_t rank) {
        return lines[rank].substr(lines[rank].find("in "));
    };
    CHECK(rack_of(0) == rack_of(1));
    CHECK(rack_of(2) == rack_of(3));
    CHECK(rack_of(0) != rack_of(2));
    CHECK(contains(status, "\"rank_because\": \"switch row1/a: "));
    CHECK(contains(status, "\"rank_because\": \"switch row1/b: "));
    CHECK(no_descendants_left());
}

TEST_CASE("with --node-unit late nodes get in when there are enough for another unit") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options =
        rendezvous.options({"--nnodes=2:5", "--node-unit=2", "--rdzv-conf=last_call_timeout=1"});
    const auto script = "echo world $WORLD_SIZE round $DDPRUN_ROUND\n" + wait_for_ever;
    std::vector<Running> nodes;
    for (int i = 0; i < 2; ++i)
        nodes.push_back(start_job(dir, options, script));
    for (auto& node : nodes)
        node.wait_for_line("world 2 round 0");
    nodes.push_back(start_job(dir, options, script));
    nodes.back().wait_for_line("grows by 2 at a time .--node-unit.: 1 more needed");
    nodes.push_back(start_job(dir, options, script));

    for (auto& node : nodes)
        node.wait_for_line("world 4 round 1");
    nodes.front().signal(SIGINT);
    for (auto& node : nodes)
        CHECK(node.wait_for_code() == 130);
    CHECK(no_descendants_left());
}

TEST_CASE("a unit that no number of nodes is a multiple of is refused before anything starts") {
    const TempDir dir;
    auto job = start_job(
        dir, {"--nnodes=5:7", "--node-unit=4", "--rdzv-endpoint=127.0.0.1:1"}, "echo begun");
    CHECK(job.wait_for_code() == 2);
    CHECK(contains(
        job.err(),
        "--node-unit: '4': no multiple of it is in 5:7 (--nnodes); accepted there are 1, 2, 3, 5, "
        "6, 7"));
    CHECK(job.out().empty());
}
