// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/kept_workers.hpp"

#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

using Kept = std::vector<control::KeptWorker>;

void ready_with(Story& job, const std::string& node, Kept kept, int round = 0) {
    job.say(node, control::Ready{round, 20'001, 2, std::move(kept)});
}

/// Nodes a and b with two ranks each; rank 0 fails.
Story job_with_a_failure(int restarts = 3) {
    auto job = job_of("2", "a b", restarts);
    job.failed("a");
    return job;
}

bool says(const Lines& lines, const std::string& text) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(text) != std::string::npos;
    });
}

}  // namespace

TEST_CASE("the source of a state is the lowest rank of those with the highest complete step") {
    // Each of three ranks is new, or is held with one of two steps or none, complete or not.
    const std::vector<std::optional<control::KeptWorker>> cases{
        std::nullopt,
        control::KeptWorker{0, 7, true},
        control::KeptWorker{0, 7, false},
        control::KeptWorker{0, 8, true},
        control::KeptWorker{0, 8, false},
        control::KeptWorker{0, std::nullopt, true},
        control::KeptWorker{0, std::nullopt, false}};
    for (const auto& first : cases)
        for (const auto& second : cases)
            for (const auto& third : cases) {
                const std::vector ranks{first, second, third};
                std::vector<HeldWorker> held;
                std::optional<control::StateSource> expected;
                for (int rank = 0; rank < 3; ++rank) {
                    const auto& worker = ranks[static_cast<std::size_t>(rank)];
                    if (!worker) continue;
                    held.push_back({rank, *worker});
                    const bool counts = worker->is_clean && worker->committed;
                    if (counts && (!expected || *worker->committed > expected->step))
                        expected = {rank, *worker->committed};
                }
                CHECK(choose_source(held) == expected);
                std::reverse(held.begin(), held.end());
                CHECK(choose_source(held) == expected);
            }
}

TEST_CASE("the next round begins with the state of a worker that is held") {
    auto job = job_with_a_failure();
    CHECK(job.stop("b").keeps);

    ready_with(job, "b", {{0, 41, true}, {1, 42, false}});
    ready_with(job, "a", {{1, 41, true}});

    CHECK(job.status().state == "running");
    const auto state = job.assignment("a").state;
    REQUIRE(state.has_value());
    CHECK(*state == control::StateSource{1, 41});
    CHECK(job.assignment("b").state == state);
    CHECK(job.assignment("b").restart_count == 1);
    CHECK(says(
        job.output(),
        "3 workers keep their processes, all begin with the state of rank 1 after step 41"));
}

TEST_CASE("without a complete state all held workers are stopped, and the restart is spent once") {
    auto job = job_with_a_failure();
    ready_with(job, "b", {{0, 41, false}});
    job.output();

    ready_with(job, "a", {});

    CHECK(job.status().state == "draining");
    const auto lines = job.output();
    CHECK(says(lines, "no worker that stays has the whole state"));
    CHECK(job.stop("a").keeps);  // the one before
    CHECK_FALSE(job.stop("b").keeps);
    ready_with(job, "b", {});
    CHECK(job.status().state == "running");
    CHECK_FALSE(job.assignment("b").state.has_value());
    CHECK(job.assignment("b").restart_count == 1);
    CHECK(job.timeline().rounds.size() == 2);
}

TEST_CASE("a state with which two rounds did no step is not used a third time") {
    auto job = job_of("2", "a b", 5);
    const auto fail_with_step = [&](int round, std::uint64_t step) {
        job.failed("a");
        ready_with(job, "b", {{0, step, true}, {1, step, true}}, round);
        job.output();
        // A lower step changes nothing.
        ready_with(job, "a", {{1, 40, true}}, round);
    };
    fail_with_step(0, 41);
    fail_with_step(1, 42);
    fail_with_step(2, 42);
    CHECK(job.assignment("a").state == control::StateSource{2, 42});

    fail_with_step(3, 42);

    CHECK(says(job.output(), "2 rounds did no step with the state of step 42: all"));
    ready_with(job, "b", {}, 3);
    ready_with(job, "a", {}, 3);
    CHECK(job.status().state == "running");
    CHECK_FALSE(job.assignment("a").state.has_value());
    // The checkpoint is older. What is reached from it counts as any other step.
    fail_with_step(4, 42);
    CHECK(job.assignment("a").state == control::StateSource{2, 42});
}

TEST_CASE(
    "when the only node with the state is lost before the round begins, the others start again") {
    auto job = job_of("2:3", "a b c");
    job.failed("a");
    ready_with(job, "a", {{1, 9, false}});
    ready_with(job, "b", {{0, 9, true}});
    job.drop("b");
    job.output();

    ready_with(job, "c", {});
    CHECK(job.status().state == "forming");
    job.pass(1s, "a c");

    CHECK(says(job.output(), "no worker that stays has the whole state"));
    ready_with(job, "a", {});
    job.pass(60s, "a c");
    CHECK(job.status().state == "running");
    CHECK_FALSE(job.assignment("a").state.has_value());
}

TEST_CASE("a stop that ends the job keeps no worker") {
    auto job = job_of("2", "a b");
    job.leave("a", SIGINT);
    CHECK_FALSE(job.stop("b").keeps);
}

TEST_CASE("a job that is cancelled while it holds workers stops them") {
    auto job = job_with_a_failure();
    ready_with(job, "b", {{0, 41, true}, {1, 41, true}});
    job.output();
    job.leave("b", SIGINT);
    // Node a is still ending its workers: it has to hold none.
    CHECK_FALSE(job.stop("a").keeps);
    ready_with(job, "a", {});
    CHECK(job.status().state == "cancelled");
}

TEST_CASE("with --recovery=restart, or a node of an older release, no worker is kept") {
    const auto restart = [](control::Join& join) {
        speaks_version_2(join);
        join.settings.recovery = control::Recovery::restart;
    };
    const auto older = [](control::Join&) {};
    for (const auto& terms : {Story::Tweak{restart}, Story::Tweak{older}}) {
        Story job{"2", 3, terms};
        job.run("a b");
        job.failed("a");
        CHECK_FALSE(job.stop("b").keeps);
    }
}

TEST_CASE("a server that was started again gets the held workers from their nodes") {
    auto job = job_with_a_failure();
    const auto assignment = job.assignment("a");
    const auto other = job.assignment("b");
    ready_with(job, "b", {{0, 41, true}, {1, 41, true}});
    job.restart_server();
    job.resume("b", control::NodeState::ready, [&](control::Resume& resume) {
        resume.assignment = other;
        resume.kept = {{0, 41, true}, {1, 41, true}};
    });
    job.resume("a", control::NodeState::stopping, [&](control::Resume& resume) {
        resume.assignment = assignment;
    });
    job.output();

    ready_with(job, "a", {{1, 41, true}});

    CHECK(job.status().state == "running");
    REQUIRE(job.assignment("a").state.has_value());
    CHECK(job.assignment("a").round > assignment.round);
}

TEST_CASE("a node whose workers can be held has the time for that, and its grace after it") {
    for (const bool is_recoverable : {false, true}) {
        auto job = job_of("2", "a b");
        job.say("b", control::Started{0, 0, is_recoverable});
        job.failed("a");
        job.ready("a");
        job.pass(36s, "a b");
        CHECK((job.status().state == "draining") == is_recoverable);
        job.pass(10s, "a b");
        CHECK(job.status().state != "draining");
    }
}

TEST_CASE("a report that workers can be held counts when it crosses the stop of the round, too") {
    auto job = job_of("2", "a b");
    const auto assignment = job.assignment("b");
    job.failed("a");
    REQUIRE(job.stop("b").keeps);
    SUBCASE("in `started`") {
        job.say("b", control::Started{0, 0, true});
    }
    SUBCASE("in a resume") {
        job.drop("b");
        job.resume("b", control::NodeState::stopping, [&](control::Resume& resume) {
            resume.assignment = assignment;
            resume.is_recoverable = true;
        });
    }
    SUBCASE("in a resume at a server that was started again") {
        const auto other = job.assignment("a");
        job.restart_server();
        job.resume("b", control::NodeState::stopping, [&](control::Resume& resume) {
            resume.assignment = assignment;
            resume.is_recoverable = true;
        });
        job.resume("a", control::NodeState::stopping, [&](control::Resume& resume) {
            resume.assignment = other;
        });
    }
    job.ready("a");
    job.pass(36s, "a b");
    CHECK(job.status().state == "draining");
    job.pass(11s, "a b");
    CHECK(job.status().state != "draining");
}

TEST_CASE(
    "a node that holds workers while the job goes on without it stops them, and may come back") {
    auto job = job_of("2:3", "a b c");
    job.say("c", control::Started{0, 0, true});
    job.failed("a");
    job.ready("a b");
    // Node c has a worker that SIGKILL does not end in time.
    job.pass(50s, "a b c");
    CHECK(job.status().state == "running");
    job.started("a b", 1);

    ready_with(job, "c", {{0, 41, true}});
    CHECK(job.stop("c").round == 0);
    CHECK_FALSE(job.stop("c").keeps);
    CHECK(job.status().round == 1);
    ready_with(job, "c", {});
    job.pass(2s, "a b c");
    CHECK(job.status().state == "draining");
}
