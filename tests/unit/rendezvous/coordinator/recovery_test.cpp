// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <set>
#include <utility>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

bool has_line(const Lines& lines, const std::string& start) {
    return std::any_of(
        lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(start); });
}

/// A job whose server was started again while all ran.
Story restarted(const std::string& nnodes, const std::string& nodes, Story::Tweak terms = {}) {
    Story job{nnodes, 3, std::move(terms)};
    job.run(nodes);
    job.restart_server();
    return job;
}

std::string state_of(const Story& job) {
    return job.status().state;
}

/// A resume by a member of a later round of two nodes.
std::function<void(control::Resume&)> in_pair(int rank) {
    return [rank](control::Resume& resume) {
        resume.assignment->round = 1;
        resume.assignment->group_rank = rank;
        resume.assignment->group_world_size = 2;
        resume.assignment->world_size = 4;
        resume.assignment->rank_base = 2 * rank;
    };
}

/// A resume by a node whose worker exited with 7 while the server was away.
void failed_meanwhile(control::Resume& resume) {
    resume.failure.emplace();
    resume.failure->end.value = 7;
    resume.age = 3s;
}

}  // namespace

TEST_CASE("when all members come back to a server that was started again, no worker is disturbed") {
    auto job = restarted("3", "a b c");

    job.resume("b", NodeState::running);
    CHECK(
        job.output() ==
        Lines{
            "b resumed",
            "b assignment round=0 group_rank=1/3 rank_base=2 world_size=6 restarts=0 "
            "master=10.0.0.97:20097",
            "recovering: the server was started again: its nodes have 30 s to come "
            "back"});
    job.pass(2s, "b");
    job.resume("a", NodeState::succeeded);
    CHECK(
        job.status().reason ==
        "the server was started again: its nodes have 30 s to come back; 2 of 3 of round 0 are "
        "back, waiting for group rank 2 (28 s left)");
    job.output();
    job.resume("c", NodeState::running);
    CHECK(
        job.output() ==
        Lines{
            "c resumed",
            "c assignment round=0 group_rank=2/3 rank_base=4 world_size=6 restarts=0 "
            "master=10.0.0.97:20097",
            "running: round 0 goes on: the server was started again, no worker "
            "was disturbed"});
    job.pass(60s, "a b c");
    CHECK(job.output() == Lines{});
    job.succeeded("b c");
    CHECK(job.result("a") == "result succeeded exit_code=0");
    CHECK(job.result("c") == "result succeeded exit_code=0");
}

TEST_CASE(
    "a member that is not back when the lease is over is lost, and the number of the round that "
    "may have been begun is left out") {
    auto job = restarted("1:3", "a b c");
    job.resume("a", NodeState::running);
    job.resume("c", NodeState::running);
    job.output();

    job.pass(29s, "a c");
    CHECK(job.output() == Lines{});
    job.pass(1s, "a c");
    const auto output = job.output();
    CHECK(has_line(
        output,
        "draining: group rank 1 of round 0 did not come back after the server was started again"));
    CHECK(has_line(output, "a stop round=0 SIGTERM"));
    job.ready("a c");
    CHECK(job.assignment("a").round == 2);
    CHECK(job.assignment("a").group_world_size == 2);
    CHECK(job.assignment("a").restart_count == 0);
    CHECK(job.status().restarts_used == 0);
    job.output();

    // It is no longer a member.
    job.resume("b", NodeState::running);
    CHECK(has_line(job.output(), "b lost \"the job went on without this node\""));
}

TEST_CASE("the highest reported round holds, and members of an older one are lost") {
    auto job = restarted("1:3", "a b c");
    job.resume("a", NodeState::running);
    job.output();

    job.resume("b", NodeState::running, in_pair(0));
    CHECK(
        has_line(job.output(), "a lost \"it came back with round 0, and the job is in round 1\""));
    job.resume("a", NodeState::starting);
    CHECK(has_line(job.output(), "a lost \"it came back with round 0"));

    job.resume("c", NodeState::running, in_pair(1));
    CHECK(state_of(job) == "running");
    CHECK(job.status().round == 1);
}

TEST_CASE("a node without workers comes back from an older round as a standby") {
    auto job = restarted("1:3", "a b c");
    job.resume("a", NodeState::ready);
    job.output();

    job.resume("b", NodeState::running, [](control::Resume& resume) {
        resume.assignment->round = 3;
        resume.assignment->group_rank = 0;
        resume.assignment->group_world_size = 1;
    });

    CHECK(state_of(job) == "running");
    CHECK(job.status().round == 3);
    job.pass(1s, "a b");
    // It is admitted as a late node.
    CHECK(has_line(job.output(), "draining: restart to let in a"));
    job.ready("b", 3);
    CHECK(job.assignment("a").round == 5);
}

TEST_CASE("spent restarts come back with the members") {
    Story job{"2", 1};
    job.run("a b");
    job.failed("a");
    job.ready("a b");
    job.started("a b", 1);
    job.restart_server();

    job.resume("a", NodeState::running, [](control::Resume& resume) { resume.spent = 1; });
    job.resume("b", NodeState::running, [](control::Resume& resume) { resume.spent = 1; });

    CHECK(job.status().restarts_used == 1);
    job.failed("b", 1);
    job.ready("a b", 1);
    CHECK(job.result("a").starts_with("result failed exit_code=7"));
}

TEST_CASE("a failure that was being judged is judged by the new server") {
    auto job = restarted("2", "a b");
    job.resume("b", NodeState::stopping, [](control::Resume& resume) {
        resume.failure.emplace();
        resume.failure->message = "exited with code 7";
        resume.age = 3s;
    });
    CHECK(has_line(job.output(), "b stop round=0 SIGTERM"));
    CHECK(state_of(job) == "recovering");

    // Its workers still run, and are stopped.
    job.resume("a", NodeState::running);
    CHECK(has_line(job.output(), "a stop round=0 SIGTERM"));
    CHECK(state_of(job) == "draining");
    job.ready("a b");

    CHECK(job.assignment("a").round == 2);
    CHECK(job.assignment("a").restart_count == 1);
}

TEST_CASE("a round that was being stopped is stopped to its end") {
    auto job = restarted("3", "a b c");
    job.resume("a", NodeState::ready);
    job.resume("b", NodeState::running);
    job.output();
    CHECK(job.status().root_cause == "round 0 was being stopped when the server was started again");
    job.ready("b");
    // c may still have workers.
    job.pass(29s, "a b");
    CHECK(state_of(job) == "recovering");

    job.resume("c", NodeState::ready);

    CHECK(job.assignment("c").round == 2);
    CHECK(job.status().restarts_used == 0);
}

TEST_CASE("a failure reported while the round stops is the cause that the status shows") {
    auto job = restarted("3", "a b c");
    job.resume("a", NodeState::ready);
    job.resume("b", NodeState::stopping, [](control::Resume& resume) {
        resume.failure.emplace();
        resume.failure->rank = 2;
        resume.failure->message = "exited with code 7";
        resume.age = 3s;
    });
    CHECK(job.status().root_cause == "rank 2 on b: exited with code 7");
    CHECK(job.status().reason.find("rank 2 on b") != std::string::npos);

    job.resume("c", NodeState::running);
    CHECK(state_of(job) == "draining");
    CHECK(job.status().root_cause == "rank 2 on b: exited with code 7");
    CHECK(job.status().reason == "rank 2 on b: exited with code 7");
}

TEST_CASE("the root cause in the status while a round stops is the one that will be judged") {
    Story job{"3"};
    job.run("a b c");
    const auto late = [](control::WorkerFailure& failure) {
        failure.rank = 0;
        failure.message = "late";
    };
    job.failed_with("a", 0, 1s, late);
    CHECK(job.status().root_cause == "rank 0 on a: late");
    job.failed_with("b", 0, 2s, [](control::WorkerFailure& failure) {
        failure.rank = 2;
        failure.message = "early";
    });
    CHECK(job.status().root_cause == "rank 2 on b: early");
    job.drop("c");
    job.pass(500ms, "a b");
    CHECK(job.status().root_cause == "node c (pid 100) was lost: its connection ended");
}

TEST_CASE("when all come back without workers, a new incarnation starts at once") {
    auto job = restarted("2", "a b");
    job.resume("a", NodeState::ready);
    job.resume("b", NodeState::ready, failed_meanwhile);
    // Another node may have been in a round of which neither of them was notified.
    const auto output = job.output();
    CHECK(has_line(output, "a lost \"no node came back to job 'job' with workers"));
    CHECK(has_line(output, "b lost"));

    job.join("c");
    job.join("d");
    CHECK(job.assignment("c").round == 0);
    CHECK(job.status().incarnation == nonce_of("c").to_short_string());
    // The job is the same one, and its failure was judged.
    CHECK(job.assignment("c").restart_count == 1);
    CHECK(job.status().restarts_used == 1);

    // Its old name is not accepted any more.
    job.output();
    job.resume("b", NodeState::ready);
    CHECK(
        job.output() ==
        Lines{
            "b lost \"the job went on without this node\"", "b closed: resumed after it was lost"});
}

TEST_CASE("a new incarnation's name begins with the scheduler's name") {
    const auto given = [](control::Join& join) { join.incarnation = "7.1"; };
    const auto as_given = [](control::Resume& resume) { resume.incarnation = "7.1"; };
    auto job = restarted("2", "a b", given);
    job.resume("a", NodeState::ready, as_given);
    job.resume("b", NodeState::ready, as_given);
    job.join("c");
    job.join("d");
    CHECK(job.status().incarnation == "7.1-" + nonce_of("c").to_short_string());
    CHECK(job.assignment("d").round == 0);
    job.output();

    job.join("e", [](control::Join& join) { join.incarnation = "7.0"; });
    CHECK(has_line(job.output(), "e refused"));
    job.join("f", [](control::Join& join) { join.incarnation = "7.2"; });
    CHECK(has_line(job.output(), "c stop round=0"));
}

TEST_CASE("no number names two rounds, however many servers end just after they began one") {
    Story job{"1:3", 3, [](control::Join& join) { join.settings.last_call_timeout = 0s; }};
    std::set<std::pair<std::string, int>> begun;
    job.run("a");
    for (const std::string newcomer : {"x", "y", "z"}) {
        job.restart_server();
        // It is the only node that gets the round after this, and never comes back.
        job.resume("a", NodeState::ready);
        job.join(newcomer);
        CAPTURE(newcomer);
        CHECK(begun.emplace(job.status().incarnation, job.assignment(newcomer).round).second);
    }
}

TEST_CASE(
    "what was cancelled in an older round is cancelled in the one that turns out to be newer") {
    auto job = restarted("2", "a b");
    job.resume("a", NodeState::running);
    job.interrupt(SIGTERM);
    job.resume("a", NodeState::running, in_pair(0));
    job.output();
    job.resume("b", NodeState::running, in_pair(1));
    CHECK(has_line(job.output(), "b stop round=1"));
    job.ready("a", 1);
    job.ready("b", 1);
    CHECK(job.result("a").starts_with("result cancelled exit_code=143"));
}

TEST_CASE("a new incarnation outlasts a first node that is refused or goes") {
    auto job = restarted("2", "a b");
    job.resume("a", NodeState::ready);
    job.resume("b", NodeState::ready, failed_meanwhile);
    job.join("x", [](control::Join& join) { join.max_restarts = 77; });
    job.join("y");
    job.drop("y");
    job.pass(5s);

    job.join("c");
    job.join("d");
    CHECK(job.assignment("c").round == 0);
    CHECK(job.assignment("c").restart_count == 1);
    CHECK(job.status().restarts_used == 1);
}

TEST_CASE(
    "a node that is done does not know the newest round: later ones may have begun without it") {
    auto job = restarted("1:2", "a b");
    job.resume("a", NodeState::succeeded);
    job.pass(30s, "a");
    CHECK(has_line(job.output(), "a stop round=0"));
    job.ready("a");
    CHECK(has_line(job.output(), "a lost \"no node came back to job 'job' with workers"));
    job.join("c");
    job.pass(60s, "c");
    CHECK(job.assignment("c").round == 0);
    CHECK(job.status().incarnation == nonce_of("c").to_short_string());
}

TEST_CASE("a node that reports a later round than before has left the earlier one") {
    auto job = restarted("2", "a b");
    job.resume("a", NodeState::running);
    job.resume("a", NodeState::running, in_pair(0));
    job.resume("b", NodeState::running, in_pair(1));
    CHECK(state_of(job) == "running");
    CHECK(job.status().round == 1);
}

TEST_CASE("when no member of a round comes back, the others start a new incarnation") {
    Story job{"2:3"};
    job.join("a");
    job.restart_server();
    job.resume("a", NodeState::ready);
    CHECK(state_of(job) == "recovering");
    job.join("b");

    job.output();

    job.pass(30s, "a b");

    const auto output = job.output();
    CHECK(has_line(output, "a lost \"no node came back to job 'job' with workers"));
    CHECK(has_line(output, "b lost"));
    CHECK(state_of(job) == "forming");
    // If they do not join again, the job does not wait for them for ever.
    job.pass(700s);
    CHECK(job.coordinator().is_idle());
}

TEST_CASE("finished members come back finished, and a job may have been done") {
    auto job = restarted("2", "a b");
    job.resume("a", NodeState::succeeded);
    job.resume("b", NodeState::succeeded);

    CHECK(job.result("a") == "result succeeded exit_code=0");
    CHECK(job.result("b") == "result succeeded exit_code=0");
}

TEST_CASE("nodes that join meanwhile stand by, and get in afterwards") {
    auto job = restarted("1:3", "a b c");
    job.resume("a", NodeState::running, in_pair(0));
    job.output();

    job.join("n");
    CHECK(
        job.output() == Lines{
                            "n welcome incarnation=61000000 lease=30s",
                            "n standby \"the server was started again: its nodes have 30 s to come "
                            "back\""});
    job.resume("b", NodeState::running, in_pair(1));
    job.pass(1s, "a b n");
    CHECK(has_line(job.output(), "draining: restart to let in n"));
}

TEST_CASE("a node that joins before the first one comes back does not take the job's name") {
    auto job = restarted("1:3", "a b c");
    job.join("n");
    job.output();

    job.resume("a", NodeState::running, in_pair(0));

    const auto output = job.output();
    CHECK(has_line(output, "n lost \"job 'job' runs already, and its nodes are coming back\""));
    CHECK(has_line(output, "a resumed"));
    job.join("n");
    job.resume("b", NodeState::running, in_pair(1));
    CHECK(state_of(job) == "running");
    CHECK(job.status().nodes.size() == 3);
}

TEST_CASE("when another job has begun under the id, members of the one before are lost") {
    auto job = restarted("2", "a b");
    job.join("x");
    job.join("y");
    job.output();

    job.resume("a", NodeState::running);

    CHECK(has_line(job.output(), "a lost \"another job runs under the id 'job'"));
}

TEST_CASE("a server inside a ddprun takes up no job") {
    Story job{"2"};
    job.is_hosted();

    job.resume("a", NodeState::running);

    CHECK(has_line(job.output(), "a lost \"the server does not know this job"));
}

TEST_CASE("a member of another job under the same name is not taken back") {
    auto job = restarted("2", "a b");
    job.resume("a", NodeState::running);
    job.output();

    job.resume(
        "b", NodeState::running, [](control::Resume& resume) { resume.join.max_restarts = 9; });

    CHECK(has_line(job.output(), "b lost \"job 'job': "));
    CHECK(state_of(job) == "recovering");
}

TEST_CASE("two nodes cannot both have had one place") {
    auto job = restarted("3", "a b c");
    job.resume("a", NodeState::running);
    job.output();

    job.resume("x", NodeState::running, [&](control::Resume& resume) {
        resume.assignment = job.assignment("a");
    });

    CHECK(has_line(job.output(), "x lost \"what it reports of its round contradicts the others\""));
}

TEST_CASE("no node is lost while a job recovers, but afterwards") {
    auto job = restarted("1:2", "a b");
    job.resume("a", NodeState::running);
    job.drop("a");
    job.output();
    job.pass(10s);
    CHECK(job.output() == Lines{});

    job.resume("b", NodeState::running);
    CHECK(state_of(job) == "running");
    job.pass(500ms, "b");
    CHECK(has_line(job.output(), "draining: node a (pid 100) was lost: its connection ended"));
}

TEST_CASE("a member that leaves while the job recovers is waited for no longer") {
    auto job = restarted("1:2", "a b");
    job.resume("a", NodeState::running);
    job.leave("a", SIGTERM);
    job.ready("a");
    job.drop("a");
    CHECK(state_of(job) == "recovering");

    job.resume("b", NodeState::running);
    CHECK(has_line(job.output(), "b stop round=0 SIGTERM"));
    job.ready("b");
    CHECK(job.assignment("b").round == 2);
    CHECK(job.assignment("b").group_world_size == 1);
}

TEST_CASE("Ctrl-C ends a job that recovers") {
    auto job = restarted("2", "a b");
    job.resume("a", NodeState::running);
    job.leave("a", SIGINT);
    CHECK(has_line(job.output(), "a stop round=0 SIGINT"));
    job.ready("a");

    job.resume("b", NodeState::running);
    job.ready("b");

    CHECK(job.result("b").starts_with("result cancelled exit_code=130"));
}

TEST_CASE("a job of one node goes on at once") {
    auto job = restarted("1", "a");
    job.resume("a", NodeState::running);

    CHECK(state_of(job) == "running");
    job.succeeded("a");
    CHECK(job.result("a") == "result succeeded exit_code=0");
}

TEST_CASE("neighbours are asked after a restart of the server as before") {
    auto job = restarted("1:3", "a b c");
    for (const auto* node : {"a", "b", "c"})
        job.resume(node, NodeState::running, [](control::Resume& resume) { resume.reached = 2; });
    job.output();

    job.pass(3s, "a c");
    CHECK(has_line(job.output(), "c ask 62000000 round=0"));
    job.pass(1s, "a c");
    for (const auto* witness : {"a", "c"})
        job.say(witness, control::NeighbourHeard{nonce_of("b"), 0, std::nullopt, true});
    job.pass(1s, "a c");
    CHECK(has_line(job.output(), "b lost"));
}

TEST_CASE("a server that slept while a job recovers waits a whole lease again") {
    auto job = restarted("2", "a b");
    job.resume("a", NodeState::running);

    job.doze(100s);
    CHECK(state_of(job) == "recovering");
    job.resume("b", NodeState::running);
    CHECK(state_of(job) == "running");
}

TEST_CASE("of two incarnations that come back the newer one goes on") {
    Story job{"1"};
    const auto as = [](const std::string& incarnation) {
        return [incarnation](control::Resume& resume) {
            resume.join.incarnation = incarnation;
            resume.incarnation = incarnation;
            resume.assignment.emplace();
            resume.assignment->master_addr = "a";
        };
    };
    job.resume("a", NodeState::running, as("2"));
    job.output();

    job.resume("b", NodeState::running, as("10"));
    CHECK(has_line(job.output(), "a stop round=0 SIGTERM"));
    job.resume("c", NodeState::running, as("9"));
    CHECK(has_line(
        job.output(), "c lost \"job 'job' has been started again since, as incarnation 10"));
    CHECK(state_of(job) == "running");
}

TEST_CASE("a job recovers on time when no other node comes") {
    auto job = restarted("2", "a b", [](control::Join& join) { join.settings.join_timeout = 60s; });
    job.resume("a", NodeState::running);
    job.pass(30s, "a");
    CHECK(state_of(job) == "draining");
    job.ready("a");
    job.pass(60s, "a");

    CHECK(job.result("a").starts_with("result failed exit_code=82"));
}

TEST_CASE("a job that ended here does not come back with a node that was away for long") {
    Story job{"1"};
    job.run("a");
    job.succeeded("a");
    job.drop("a");
    job.pass(100s);
    job.output();

    job.resume("a", NodeState::running);

    CHECK(has_line(job.output(), "a lost \"the job ended long ago\""));
}

TEST_CASE("when only nodes without workers come back, and not all, they start a new incarnation") {
    auto job = restarted("1:2", "a b");
    job.resume("a", NodeState::ready);
    job.output();

    job.pass(30s, "a");

    CHECK(has_line(job.output(), "a lost \"no node came back to job 'job' with workers"));
    job.join("a");
    CHECK(state_of(job) == "forming");
}

TEST_CASE("a job of one node that was stopping is stopped to its end") {
    auto job = restarted("1", "a");
    job.resume("a", NodeState::stopping);
    CHECK(has_line(job.output(), "a stop round=0"));

    job.ready("a");

    CHECK(job.assignment("a").round == 2);
}

TEST_CASE("a node that leaves while others may still come back is not every node") {
    auto job = restarted("3", "a b c");
    job.resume("a", NodeState::running);

    job.leave("a", SIGTERM);

    const auto reason = job.status().reason;
    CHECK(reason.find("then the round ends: node a (pid 100) leaves") != std::string::npos);
}

TEST_CASE("a round that was stopped and not taken up again is why a replacement is missed") {
    auto job =
        restarted("3", "a b c", [](control::Join& join) { join.settings.join_timeout = 20s; });
    job.resume("a", NodeState::running);
    job.resume("b", NodeState::ready);
    job.ready("a");

    job.pass(30s, "a b");
    job.pass(20s, "a b");

    const auto& result = job.whole_result("a");
    CHECK(result.exit_code == 82);
    CHECK(
        result.root_cause->reason ==
        "round 0 was being stopped when the server was started again; no replacement came within "
        "20 s (2 of 3 nodes: a, b)");
}

TEST_CASE("a member that falls silent after a round was not taken up again is noticed") {
    auto job = restarted("3", "a b c");
    job.resume("a", NodeState::running);
    job.resume("b", NodeState::ready);
    job.ready("a");
    job.pass(30s, "a b");
    REQUIRE(state_of(job) == "forming");
    job.output();

    job.pass(4s, "a");

    CHECK(has_line(job.output(), "forming: node b (pid 100) has been silent"));
}
