// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/resize.hpp"

#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

using Kind = ResizeDecision::Kind;

const std::string by = "ddprunctl (user alice, pid 7 on a)";

control::Resize a_resize(control::NodeRange nodes) {
    return {9, nodes, by};
}

/// The job's answer to `a`: "done ..." or "refused ...".
std::string resize(Story& job, control::NodeRange nodes) {
    job.output();
    job.say("a", a_resize(nodes));
    const std::string start = "a drain_answer id=9 ";
    for (const auto& line : job.output())
        if (line.starts_with(start)) return line.substr(start.size());
    return {};
}

std::string refused(const std::string& why) {
    return "refused \"" + why + "\"";
}

/// The states of the nodes by group rank, then of those without a place: "a b|c".
std::string places(const Story& job) {
    std::string placed;
    std::string others;
    for (const auto& node : job.status().nodes) {
        auto& line = node.group_rank ? placed : others;
        line += (line.empty() ? "" : " ") + node.host;
    }
    return placed + '|' + others;
}

const std::string saving = "all ranks save now, because a node is taken away: try again after that";
const std::string finished =
    "the first workers have finished: the job does not restart with another size";

}  // namespace

TEST_CASE("a table of the sizes that a job can have, and of what follows") {
    struct Row {
        ResizeFacts facts;
        control::NodeRange wanted;
        ResizeDecision decision;
    };
    ResizeFacts two{{1, 2}, false, 2, 2};
    ResizeFacts two_and_one = two;
    two_and_one.present = 3;
    two_and_one.waiting = 1;
    ResizeFacts with_a_held_one = two_and_one;
    with_a_held_one.waiting = 0;
    ResizeFacts with_successes = two_and_one;
    with_successes.has_successes = true;
    ResizeFacts with_a_save = two_and_one;
    with_a_save.is_saving = true;
    ResizeFacts fixed_places = two;
    fixed_places.is_static = true;
    const ResizeFacts alone{{1, 1}, false, 1, 1};
    const std::string only_one = "a job that was started with --nnodes=1 cannot have other nodes";
    const ResizeFacts with_a_spare{{1, 1, 1}, false, 2, 1};
    ResizeFacts served_by_the_last = two;
    served_by_the_last.host_rank = 1;
    const ResizeFacts units{{2, 4, 0, 2}, false, 5, 2, 3};
    const ResizeFacts without_round{{4, 4}, false, 2};
    const ResizeFacts of_a_silent_one{{2, 4}, false, 3, 4};
    ResizeFacts one_leaves{{1, 2}, false, 1, 2};
    one_leaves.leaving = 1;
    ResizeFacts one_leaves_two_wait{{1, 2}, false, 3, 2, 2};
    one_leaves_two_wait.leaving = 1;

    const std::vector<Row> rows{
        {two, {1, 2}, {Kind::kept, "--nnodes=1:2: the job goes on with 2 nodes"}},
        {two, {1, 9, 3}, {Kind::kept, "--nnodes=1:9+3: the job goes on with 2 nodes"}},
        {two,
         {1, 1},
         {Kind::restarted,
          "--nnodes=1: the job restarts with 1 node instead of 2; the highest group ranks stand "
          "by"}},
        {two, {3, 4}, {Kind::refused, "--nnodes=3:4 needs 3 nodes, and there are 2"}},
        {alone, {1, 1}, {Kind::kept, "--nnodes=1: the job goes on with 1 node"}},
        {alone, {1, 2}, {Kind::refused, only_one}},
        {alone, {1, 1, 1}, {Kind::refused, only_one}},
        {with_a_spare,
         {1, 2},
         {Kind::refused, "a job that was started with --nnodes=1+1 has rounds of one node only"}},
        {with_a_spare, {1, 1, 2}, {Kind::kept, "--nnodes=1+2: the job goes on with 1 node"}},
        {served_by_the_last,
         {1, 1},
         {Kind::restarted,
          "--nnodes=1: the job restarts with 1 node instead of 2; the highest group ranks stand "
          "by, and with them the node that serves the rendezvous: do not end it"}},
        {two_and_one,
         {1, 3},
         {Kind::restarted, "--nnodes=1:3: the job restarts with 3 nodes instead of 2"}},
        {two_and_one, {1, 2}, {Kind::kept, "--nnodes=1:2: the job goes on with 2 nodes"}},
        {with_a_held_one, {1, 3}, {Kind::kept, "--nnodes=1:3: the job goes on with 2 nodes"}},
        {with_a_held_one,
         {3, 3},
         {Kind::restarted, "--nnodes=3: the job restarts with 3 nodes instead of 2"}},
        {with_successes, {1, 3}, {Kind::refused, finished}},
        {with_successes, {1, 2}, {Kind::kept, "--nnodes=1:2: the job goes on with 2 nodes"}},
        {with_a_save, {1, 1}, {Kind::refused, saving}},
        {fixed_places,
         {1, 2},
         {Kind::refused, "a job of static rendezvous has a fixed place for each node"}},
        {units,
         {2, 3, 0, 2},
         {Kind::refused, "--nnodes=2:3 has sizes that are no multiple of 2 (--node-unit)"}},
        {units,
         {3, 4, 0, 2},
         {Kind::refused, "--nnodes=3:4 has sizes that are no multiple of 2 (--node-unit)"}},
        {units,
         {2, 8, 0, 2},
         {Kind::restarted, "--nnodes=2:8: the job restarts with 4 nodes instead of 2"}},
        {without_round, {2, 2}, {Kind::next_round, "--nnodes=2 from the next round on"}},
        {without_round, {3, 3}, {Kind::refused, "--nnodes=3 needs 3 nodes, and there are 2"}},
        {of_a_silent_one, {2, 4}, {Kind::kept, "--nnodes=2:4: the job goes on with 4 nodes"}},
        {of_a_silent_one,
         {1, 2},
         {Kind::restarted,
          "--nnodes=1:2: the job restarts with 2 nodes instead of 4; the highest group ranks stand "
          "by"}},
        {one_leaves, {1, 2}, {Kind::kept, "--nnodes=1:2: the job goes on with 1 node"}},
        {one_leaves, {2, 2}, {Kind::refused, "--nnodes=2 needs 2 nodes, and there is 1"}},
        {one_leaves_two_wait, {1, 2}, {Kind::kept, "--nnodes=1:2: the job goes on with 2 nodes"}},
        {one_leaves_two_wait,
         {1, 4},
         {Kind::restarted, "--nnodes=1:4: the job restarts with 3 nodes instead of 2"}},
        {ResizeFacts{{1, 4}, false, 1, 2},
         {1, 1},
         {Kind::restarted,
          "--nnodes=1: the job restarts with 1 node instead of 2; the highest group ranks stand "
          "by"}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.decision.text);
        const auto decision = decide_resize(row.facts, row.wanted);
        CHECK(decision.text == row.decision.text);
        CHECK(decision.kind == row.decision.kind);
    }
}

TEST_CASE("a job of a fixed size shrinks by a command, and grows again, without a restart spent") {
    auto job = job_of("2", "a b");

    job.say("a", a_resize({1, 1}));
    const std::string reason = "resized to --nnodes=1 by " + by;
    CHECK(
        job.output() ==
        Lines{
            "a drain_answer id=9 done \"--nnodes=1: the job restarts with 1 node instead of 2; the "
            "highest group ranks stand by\"",
            "a resized count=1 1",
            "b resized count=1 1",
            "draining: " + reason,
            "a stop round=0 SIGTERM grace=30s \"" + reason + "\"",
            "b stop round=0 SIGTERM grace=30s \"" + reason + "\""});
    job.ready("b a");
    CHECK(places(job) == "a|b");
    CHECK(job.status().restarts_used == 0);
    CHECK(job.status().round_because == reason);
    CHECK(job.timeline().rounds.at(0).end->what.root_cause == reason);
    CHECK(job.timeline().rounds.at(0).end->what.kind == control::Cause::Kind::resized);
    job.started("a", 1);
    // A node that was left over is not refused, though the size is fixed.
    job.pass(60s, "a b");
    CHECK(places(job) == "a|b");

    CHECK(resize(job, {2, 2}) == "done \"--nnodes=2: the job restarts with 2 nodes instead of 1\"");
    job.ready("a", 1);
    CHECK(places(job) == "a b|");
    CHECK(job.status().round == 2);
    CHECK(job.status().restarts_used == 0);
}

TEST_CASE("a node that was started with the first size joins a job that was resized") {
    auto job = job_of("1:2", "a b");
    CHECK(resize(job, {1, 3}) == "done \"--nnodes=1:3: the job goes on with 2 nodes\"");

    job.join("c");
    const auto lines = job.output();
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].starts_with("c welcome "));
    CHECK(lines[1] == "c resized count=1 1:3");
    job.pass(1s, "a b c");
    job.ready("a b");
    CHECK(places(job) == "a b c|");

    job.output();
    job.join("d", [](control::Join& join) { join.nodes = {1, 3}; });
    CHECK(job.output().at(0).starts_with("d refused \"job 'job': --nnodes is 1:3 on d "));
}

TEST_CASE("waiting nodes are let in by a command, whatever --late-nodes is") {
    for (const auto late : {control::LateNodes::at_restart, control::LateNodes::never}) {
        Story job{"1:2+1", 3, [&](control::Join& join) {
                      speaks_version_2(join);
                      join.settings.late_nodes = late;
                  }};
        job.run("a b");
        job.join("c");
        job.pass(10s, "a b c");
        CHECK(places(job) == "a b|c");
        CHECK(
            resize(job, {1, 3}) ==
            "done \"--nnodes=1:3: the job restarts with 3 nodes instead of 2\"");
        job.ready("a b");
        CHECK(places(job) == "a b c|");
        // A smaller size holds with `never`, too, also where a loss comes first.
        job.started("a b c", 1);
        job.failed("b", 1);
        CHECK(resize(job, {1, 2}) == "done \"--nnodes=1:2 from the next round on\"");
        job.ready("a b c", 1);
        CHECK(places(job) == "a b|c");
    }
}

TEST_CASE("nodes that leave and nodes of drained hosts are no part of the size to come") {
    auto job = job_of("1:3", "a b c");
    job.say("a", control::Drain{1, {"c"}, false, by});
    CHECK(resize(job, {1, 3}) == "done \"--nnodes=1:3: the job goes on with 2 nodes\"");
    job.say("c", control::Leave{"drained by " + by, SIGTERM});
    job.ready("a b c");
    job.drop("c");
    job.started("a b", 1);
    job.join("e", [](control::Join& join) {
        speaks_version_2(join);
        join.node.host = "c";
    });
    CHECK(resize(job, {1, 5}) == "done \"--nnodes=1:5: the job goes on with 2 nodes\"");
    CHECK(resize(job, {3, 5}) == refused("--nnodes=3:5 needs 3 nodes, and there are 2"));
}

TEST_CASE("a size that comes while the round is stopped for another cause lets nodes in as well") {
    Story job{"1:2+1", 3, [&](control::Join& join) {
                  speaks_version_2(join);
                  join.settings.late_nodes = control::LateNodes::never;
              }};
    job.run("a b");
    job.join("c");
    job.failed("b");
    CHECK(resize(job, {1, 3}) == "done \"--nnodes=1:3 from the next round on\"");
    job.ready("a b");
    CHECK(places(job) == "a b c|");
}

TEST_CASE("a job whose last restart is spent is ending: it is not resized") {
    Story job{"1:2", 0, speaks_version_2};
    job.run("a b");
    job.failed("b");
    CHECK(resize(job, {1, 1}).starts_with("refused \"the job is ending: "));
}

TEST_CASE("a job that waits for its first round begins it with a smaller size") {
    Story job{"3", 3, speaks_version_2};
    job.join("a");
    job.join("b");
    CHECK(resize(job, {3, 4}) == refused("--nnodes=3:4 needs 3 nodes, and there are 2"));
    CHECK(resize(job, {2, 2}) == "done \"--nnodes=2 from the next round on\"");
    CHECK(places(job) == "a b|");
}

TEST_CASE("a job that cannot be resized now refuses it") {
    auto job = job_of("1:2", "a b");
    job.restart_server();
    job.resume("a", NodeState::running);
    CHECK(
        resize(job, {1, 1}) ==
        refused("the server has just taken the job up, and waits for its nodes: "
                "try again when it runs"));
    job.resume("b", NodeState::running);
    CHECK(resize(job, {1, 2}) == "done \"--nnodes=1:2: the job goes on with 2 nodes\"");
    job.say("a", control::Notice{"SIGTERM on a", SIGTERM, 30s});
    CHECK(resize(job, {1, 1}) == refused(saving));
    job.interrupt(SIGINT);
    CHECK(resize(job, {1, 1}).starts_with("refused \"the job is ending: "));

    auto other = job_of("1:2", "a b");
    other.join("c", [](control::Join& join) { join.versions.clear(); });
    CHECK(
        resize(other, {1, 1}) ==
        refused("c (pid 100) runs an older release of ddprun, which changes the size of no job"));
}

TEST_CASE("a server that is started again gets the size from the nodes, the newest one") {
    auto job = job_of("2", "a b");
    const control::Resized first{1, {1, 3}};
    const control::Resized second{2, {1, 1}};
    job.restart_server();
    job.resume("a", NodeState::running, [&](control::Resume& resume) { resume.resized = first; });
    job.output();
    job.resume("b", NodeState::running, [&](control::Resume& resume) { resume.resized = second; });
    const auto lines = job.output();
    CHECK(std::count(lines.begin(), lines.end(), "a resized count=2 1") == 1);
    CHECK(std::count(lines.begin(), lines.end(), "b resized count=2 1") == 0);
    // A node may have missed the last one.
    job.drop("a");
    job.resume("a", NodeState::running, [&](control::Resume& resume) { resume.resized = first; });
    const auto again = job.output();
    CHECK(std::count(again.begin(), again.end(), "a resized count=2 1") == 1);
    // The round that goes on keeps its nodes; the next one has the new size.
    job.failed("b");
    job.ready("a b");
    CHECK(places(job) == "a|b");
}

TEST_CASE("a size that no server has sent is not taken over") {
    auto job = job_of("2", "a b");
    job.restart_server();
    job.resume("a", NodeState::running, [](control::Resume& resume) {
        resume.resized = control::Resized{1, {2, 2, 0, 2}};
    });
    job.resume("b", NodeState::running);
    job.output();
    job.failed("a");
    job.ready("a b");
    CHECK(places(job) == "a b|");
    job.join("c");
    for (const auto& line : job.output())
        CHECK(line.find("resized") == line.npos);
}

TEST_CASE("another machine resizes a job, and has to name a size") {
    auto job = job_of("2", "a b");
    const auto answer = [&](std::optional<control::NodeRange> range) {
        job.output();
        control::JobCommand command{control::JobCommand::What::resize, "job"};
        command.by = "alice@login1";
        command.range = range;
        job.command("ctl", std::move(command));
        return job.output();
    };
    CHECK(
        answer(std::nullopt).at(1) ==
        "ctl job_command_answer not_possible \"no number of nodes is given\" jobs=0");
    const auto lines = answer(control::NodeRange{1, 1});
    CHECK(lines.at(0).starts_with(
        "resize job=job 1 done by ddprunctl at 10.0.0.108 (stated: alice@login1) \"--nnodes=1: "));
    CHECK(lines.at(4).starts_with(
        "draining: resized to --nnodes=1 by ddprunctl at 10.0.0.108 (stated: alice@login1)"));
}
