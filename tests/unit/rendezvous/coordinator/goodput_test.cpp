// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/text.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::WorkPhase;

namespace {

void report(
    Story& job,
    const std::string& node,
    std::optional<std::uint64_t> step,
    int round = 0,
    WorkPhase phase = WorkPhase::none) {
    job.show_progress(node, round, {{0, {step, phase}}});
}

/// "productive 3 s, forming 1 s": what is not zero.
std::string shown(const control::Goodput& goodput) {
    std::string text;
    for (std::size_t i = 0; i < control::goodput_phase_count; ++i) {
        const auto phase = static_cast<control::GoodputPhase>(i);
        const auto length = std::chrono::duration_cast<std::chrono::seconds>(goodput[phase]);
        if (length == Duration{}) continue;
        if (!text.empty()) text += ", ";
        text += std::string{control::name_of(phase)} + ' ' + std::to_string(length.count()) + " s";
    }
    return text;
}

std::string goodput(const Story& job) {
    return shown(job.status().goodput.totals);
}

Story two_nodes() {
    return Story{"2", 3, speaks_version_2};
}

/// Formed in 1 s, started in 2 s, one step in each of 5 s.
Story in_training() {
    auto job = two_nodes();
    job.join("a");
    job.pass(1s, "a");
    job.join("b");
    job.pass(2s, "a b");
    job.started("a b");
    for (std::uint64_t step = 1; step <= 5; ++step) {
        job.pass(1s, "a b");
        report(job, "a", step);
        report(job, "b", step);
    }
    return job;
}

}  // namespace

TEST_CASE("a job's time is divided into its phases, and comes with the result") {
    auto job = in_training();
    CHECK(job.status().goodput.phase == "productive");
    CHECK(job.status().goodput.step == 5);
    CHECK(goodput(job) == "productive 4 s, first_step 1 s, starting 2 s, forming 1 s");
    job.failed("a");
    job.pass(1s, "a b");
    job.ready("a b");
    job.started("a b", 1);
    job.pass(1s, "a b");
    report(job, "a", 4, 1);
    report(job, "b", 4, 1);
    CHECK(job.status().goodput.phase == "redone");
    CHECK(job.assignment("b").done_step == 5);
    job.pass(2s, "a b");
    report(job, "a", 6, 1);
    report(job, "b", 6, 1);
    report(job, "b", 6, 1, WorkPhase::save);
    job.pass(1s, "a b");
    CHECK(job.status().goodput.phase == "saving");
    job.succeeded("a b", 1);
    const std::string all =
        "productive 4 s, redone 2 s, saving 1 s, first_step 2 s, starting 2 s, forming 1 s, "
        "draining 1 s";
    CHECK(job.result("b").find("succeeded") != std::string::npos);
    CHECK(shown(job.whole_result("b").goodput.value()) == all);
    CHECK(job.status().goodput.phase.empty());
    job.pass(5s, "a b");
    CHECK(goodput(job) == all);
}

TEST_CASE("the timeline has each round's part of the time, and why it ended") {
    auto job = in_training();
    REQUIRE(job.timeline().rounds.size() == 1);
    CHECK_FALSE(job.timeline().rounds.front().end);

    job.failed("a");
    job.pass(1s, "a b");
    job.ready("a b");
    job.started("a b", 1);
    job.pass(2s, "a b");
    report(job, "a", 6, 1);
    report(job, "b", 6, 1);
    job.pass(1s, "a b");
    job.succeeded("a b", 1);
    job.pass(5s, "a b");

    const auto rounds = job.timeline().rounds;
    REQUIRE(rounds.size() == 2);
    CHECK(shown(rounds[0].begin) == "forming 1 s");
    CHECK(shown(rounds[0].spent()) == "productive 4 s, first_step 1 s, starting 2 s, draining 1 s");
    CHECK(rounds[0].end.value().what.kind == control::Cause::Kind::worker_failed);
    CHECK(rounds[0].end.value().what.root_cause == "rank 0 on a: exited with code 7");
    CHECK(rounds[1].number == 1);
    CHECK(rounds[1].begin == rounds[0].end.value().totals);
    CHECK(shown(rounds[1].spent()) == "productive 1 s, first_step 2 s");
    CHECK_FALSE(rounds[1].end.value().what.kind);
    CHECK(job.timeline(1).rounds.size() == 1);
    CHECK(job.timeline(2).rounds.empty());
}

TEST_CASE("a round from before the server was restarted begins when the job has recovered") {
    auto job = in_training();
    job.restart_server();
    job.resume("a", control::NodeState::running);
    CHECK(job.timeline().rounds.empty());
    job.resume("b", control::NodeState::running);
    REQUIRE(job.timeline().rounds.size() == 1);
    CHECK(job.timeline().rounds.front().number == 0);
}

TEST_CASE("a node of an older release gets no goodput") {
    Story job{"2"};
    job.run("a b");
    job.pass(2s, "a b");
    job.succeeded("a b");
    CHECK_FALSE(job.whole_result("a").goodput);
    // It comes back for the result that it already got.
    job.drop("a");
    job.output();
    job.resume("a", control::NodeState::succeeded);
    CHECK_FALSE(job.output().empty());
    CHECK_FALSE(job.whole_result("a").goodput);
}

TEST_CASE(
    "a save begins at the step of the rank that saves, which its node's slowest may not have") {
    Story job{"2", 3, [](control::Join& join) {
                  speaks_version_2(join);
                  join.nproc = 2;
              }};
    job.run("a b");
    const auto show = [&](const std::string& node, std::vector<control::RankProgress> ranks) {
        job.show_progress(node, 0, std::move(ranks));
    };
    show("b", {{0, {95, WorkPhase::none}}, {1, {95, WorkPhase::none}}});
    show("a", {{0, {100, WorkPhase::save}}, {1, {99, WorkPhase::none}}});
    CHECK(job.status().goodput.phase == "saving");
    show("b", {{0, {100, WorkPhase::none}}, {1, {100, WorkPhase::none}}});
    show("a", {{0, {100, WorkPhase::save}}, {1, {100, WorkPhase::none}}});
    CHECK(job.status().goodput.step == 100);
    CHECK(job.status().goodput.phase == "saving");
}

TEST_CASE("time without any connected node is down") {
    auto job = in_training();
    job.drop("a");
    job.drop("b");
    job.pass(200ms);
    CHECK(job.status().goodput.phase == "down");
}

TEST_CASE("a server that is started again gets the totals and the step back from its members") {
    auto job = in_training();
    job.pass(1s, "a b");
    const auto kept = job.status().goodput.totals;
    CHECK(job.status().goodput.decided);
    job.restart_server();
    job.resume("a", control::NodeState::running, [&](control::Resume& resume) {
        resume.goodput = kept;
        resume.goodput_age = 20s;
        resume.assignment->done_step = 3;
    });
    // The other member may report more.
    CHECK_FALSE(job.status().goodput.decided);
    job.resume("b", control::NodeState::running, [&](control::Resume& resume) {
        resume.assignment->done_step = 3;
    });
    CHECK(goodput(job) == "productive 5 s, first_step 1 s, starting 2 s, forming 1 s, down 20 s");
    CHECK(job.status().goodput.decided);
    report(job, "a", 3);
    CHECK(job.status().goodput.phase == "redone");
    report(job, "a", 4);
    CHECK(job.status().goodput.phase == "productive");
}

TEST_CASE("what a refused member reports changes neither the totals nor the step") {
    auto job = in_training();
    job.restart_server();
    const auto has_all = [](control::Resume& resume) {
        resume.goodput.emplace();
        (*resume.goodput)[control::GoodputPhase::productive] = 1000s;
        resume.assignment->done_step = 1000;
    };
    job.resume("a", control::NodeState::running, [](control::Resume& resume) {
        resume.assignment->round = 1;
    });
    SUBCASE("its round is impossible") {
        job.resume("b", control::NodeState::running, [&](control::Resume& resume) {
            has_all(resume);
            resume.assignment->rank_base = resume.assignment->world_size;
        });
    }
    SUBCASE("its round is an older one") {
        job.resume("b", control::NodeState::running, has_all);
    }
    SUBCASE("its place is another member's") {
        job.resume("b", control::NodeState::running, [&](control::Resume& resume) {
            has_all(resume);
            resume.assignment->round = 1;
            resume.assignment->group_rank = 0;
        });
    }
    CHECK(goodput(job).empty());
    job.resume("b", control::NodeState::running, [](control::Resume& resume) {
        resume.assignment->round = 1;
    });
    CHECK(job.status().state == "running");
    report(job, "a", 6, 1);
    report(job, "b", 6, 1);
    CHECK(job.status().goodput.phase == "productive");
}
