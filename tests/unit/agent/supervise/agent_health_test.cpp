// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;

namespace {

using HealthAnswer = A::HealthChecked::Answer;
using Reason = A::CheckHealth::Reason;

AgentConfig checked() {
    auto config = a_config();
    config.health_check = "nvidia-smi -q";
    config.join.settings.health_timeout = 60s;
    return config;
}

/// Its first check succeeded, and it joined.
void join(Story& story) {
    story.is(A::Began{});
    story.is(A::HealthChecked{HealthAnswer::fit, ""});
    story.is(A::StoreOpened{first_store});
    story.link = story.asked_for<A::Connect>().back().link;
    story.is(A::LinkOpened{story.link, "10.0.0.2:40000", 2});
    story.hears(a_welcome());
    story.asked();
}

void join_and_run(Story& story) {
    join(story);
    story.hears(an_assignment());
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.asked();
}

/// One of its workers has failed, and none runs any more.
void end_with_failure(Story& story) {
    story.is(A::WorkerExited{1, crash});
    story.is(A::FailureExplained{0, 1, "", "", false});
    story.is(A::StoreOpened{second_store});
    story.hears(a_stop());
    story.is(A::WorkerExited{0, by_sigterm});
    story.has_no_leftovers();
}

}  // namespace

TEST_CASE("with a health check a node connects when it has been found fit, not before") {
    Story story(checked());
    story.is(A::Began{});
    CHECK(story.asked_for<A::CheckHealth>() == std::vector{A::CheckHealth{Reason::start}});
    CHECK(story.asked_for<A::Connect>().empty());
    story.asked();

    story.is(A::HealthChecked{HealthAnswer::fit, ""});
    CHECK(story.asked_for<A::Connect>().size() == 1);
}

TEST_CASE("a node that is unfit at its start ends with 89 and never connects") {
    Story story(checked());
    story.is(A::Began{});
    story.is(A::HealthChecked{HealthAnswer::unfit, "GPU 3 has ECC errors"});
    CHECK(story.asked_for<A::Connect>().empty());
    CHECK(story.agent.phase() == Phase::done);
    CHECK(story.report().exit_code == 89);
    CHECK(story.report().reason == story.agent.node().host + " is unfit: GPU 3 has ECC errors");
}

TEST_CASE("a health check that cannot be run is refused at the start") {
    Story story(checked());
    story.is(A::Began{});
    story.is(A::HealthChecked{HealthAnswer::not_run, "the command exited with code 127"});
    CHECK(story.report().exit_code == 83);
    CHECK(story.report().reason == "--health-check: the command exited with code 127");
}

TEST_CASE("a health check without an answer is noted, and the node joins") {
    Story story(checked());
    story.is(A::Began{});
    story.is(A::HealthChecked{HealthAnswer::unknown, "no answer within 60 s"});
    CHECK(
        story.asked_for<A::NoteHealthUnknown>() ==
        std::vector{A::NoteHealthUnknown{"no answer within 60 s"}});
    CHECK(story.asked_for<A::Connect>().size() == 1);
}

TEST_CASE("a signal while a node is checked at its start ends it as ever") {
    Story story(checked());
    story.is(A::Began{});
    story.is(A::Signalled{SIGTERM});
    CHECK(story.report().exit_code == 143);
}

TEST_CASE("after a failure here a node is ready once it has been found fit") {
    Story story(checked());
    join_and_run(story);
    end_with_failure(story);
    CHECK(story.asked_for<A::CheckHealth>() == std::vector{A::CheckHealth{Reason::failure}});
    CHECK(story.said<ctl::Failed>().size() == 1);
    CHECK(story.said<ctl::Ready>().empty());
    story.asked();

    story.is(A::HealthChecked{HealthAnswer::fit, ""});
    CHECK(story.said<ctl::Ready>().size() == 1);
}

TEST_CASE("a failure that is explained when the workers are gone is checked for, too") {
    Story story(checked());
    join_and_run(story);
    story.is(A::WorkerExited{1, crash});
    story.is(A::WorkerExited{0, by_sigterm});
    story.is(A::StoreOpened{second_store});
    story.has_no_leftovers();
    CHECK(story.asked_for<A::CheckHealth>() == std::vector{A::CheckHealth{Reason::failure}});
    story.is(A::FailureExplained{0, 1, "", "", false});
    CHECK(story.said<ctl::Ready>().empty());

    story.is(A::HealthChecked{HealthAnswer::fit, ""});
    CHECK(story.said<ctl::Ready>().size() == 1);
}

TEST_CASE("a node that a failure has shown to be unfit leaves, and ends with 89") {
    Story story(checked());
    join_and_run(story);
    end_with_failure(story);
    story.asked();

    story.is(A::HealthChecked{HealthAnswer::unfit, "GPU 3 has ECC errors"});
    REQUIRE(story.said<ctl::Leave>().size() == 1);
    CHECK(
        story.said<ctl::Leave>().front().reason ==
        story.agent.node().host + " is unfit: GPU 3 has ECC errors");
    CHECK(story.asked_for<A::NoteUnfit>().size() == 1);

    // The job ends meanwhile, with a result that does not mention this node.
    story.hears(ctl::JobResult{ctl::Outcome::failed, std::nullopt, 3});
    CHECK(story.report().exit_code == 89);
}

TEST_CASE("a node that is lost while it is checked joins again when it has been found fit") {
    Story story(checked());
    join_and_run(story);
    end_with_failure(story);
    story.hears(ctl::Lost{"silent"});
    CHECK(story.asked_for<A::Connect>().empty());
    story.asked();
    story.is(A::HealthChecked{HealthAnswer::fit, ""});
    CHECK(story.asked_for<A::Connect>().size() == 1);
}

TEST_CASE("after a round that was stopped for another node nothing is checked") {
    Story story(checked());
    join_and_run(story);
    story.hears(a_stop());
    story.is(A::WorkerExited{0, by_sigterm});
    story.is(A::WorkerExited{1, by_sigterm});
    story.is(A::StoreOpened{second_store});
    story.has_no_leftovers();
    CHECK(story.asked_for<A::CheckHealth>().empty());
    CHECK(story.said<ctl::Ready>().size() == 1);
}

TEST_CASE("a connection that comes back while a node is checked does not call it ready") {
    Story story(checked());
    join_and_run(story);
    end_with_failure(story);
    story.is(A::LinkClosed{story.link, A::ConnectError::lost, "reset"});
    story.pass(1s);
    story.link = story.asked_for<A::Connect>().back().link;
    story.asked();
    story.is(A::LinkOpened{story.link, "10.0.0.2:40000", 2});
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().front().state == ctl::NodeState::stopping);
}

namespace {

constexpr int restart_xid = 31;
constexpr int unfit_xid = 79;
constexpr int shown_xid = 43;

A::XidSeen an_xid(int code, std::vector<int> local_ranks, std::optional<int> round = 0) {
    return {round, {"0000:3b:00", code, std::nullopt, "text"}, std::move(local_ranks)};
}

std::string of_xid(int code) {
    return "GPU 0000:3b:00, Xid " + std::to_string(code) + ": text";
}

void run_round(Story& story, int round) {
    story.hears(an_assignment(round));
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.asked();
}

Story running() {
    return Story(a_config());
}

void join_unchecked(Story& story) {
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});
    story.gets_through();
    story.hears(a_welcome());
    story.asked();
}

}  // namespace

TEST_CASE("with --health-strict a check without an answer makes the node unfit") {
    auto config = checked();
    config.is_health_strict = true;
    Story story(config);
    story.is(A::Began{});
    story.is(A::HealthChecked{HealthAnswer::unknown, "no answer within 60 s"});
    CHECK(story.report().exit_code == 89);
    CHECK(story.report().reason == "here is unfit: --health-strict: no answer within 60 s");
}

TEST_CASE("with --health-strict a command that does not exist is still refused at the start") {
    auto config = checked();
    config.is_health_strict = true;
    Story story(config);
    story.is(A::Began{});
    story.is(A::HealthChecked{HealthAnswer::not_run, "the command exited with code 127"});
    CHECK(story.report().exit_code == 83);
}

TEST_CASE("a node whose GPU needs a reset leaves at once, and ends with 89") {
    auto story = running();
    join_unchecked(story);
    run_round(story, 0);
    story.is(an_xid(unfit_xid, {1}));
    const auto reason = "here is unfit: " + of_xid(unfit_xid);
    REQUIRE(story.said<ctl::Leave>().size() == 1);
    CHECK(story.said<ctl::Leave>().front().reason == reason);
    CHECK(story.asked_for<A::NoteUnfit>() == std::vector{A::NoteUnfit{reason}});
    CHECK(story.agent.phase() == Phase::stopping);

    story.is(A::WorkerExited{0, by_sigterm});
    story.is(A::WorkerExited{1, by_sigterm});
    story.has_no_leftovers();
    story.pass(2s);
    CHECK(story.report().exit_code == 89);
    CHECK(story.report().reason == reason);
}

TEST_CASE("a worker whose GPU has an error gets 5 s to end by itself, and is killed then") {
    auto story = running();
    join_unchecked(story);
    run_round(story, 0);
    story.is(an_xid(restart_xid, {1}));
    CHECK(
        story.asked_for<A::NoteXid>() ==
        std::vector{A::NoteXid{of_xid(restart_xid), "the workers start again"}});
    story.pass(4s);
    CHECK(story.asked_for<G::KillSession>().empty());
    story.pass(1s);
    CHECK(story.asked_for<G::KillSession>() == std::vector{G::KillSession{1}});

    story.is(A::WorkerExited{1, by_sigkill});
    story.is(A::FailureExplained{0, 1, "", "", false});
    const auto failed = story.said<ctl::Failed>();
    REQUIRE(failed.size() == 1);
    const auto& failure = failed.front().failure;
    CHECK(failure.message == of_xid(restart_xid));
    CHECK(failure.why == "the kernel reports an error of its GPU: " + of_xid(restart_xid));
}

TEST_CASE("a worker that dies of its GPU's error keeps its message, and the report has the error") {
    for (const int code : {restart_xid, shown_xid}) {
        auto story = running();
        join_unchecked(story);
        run_round(story, 0);
        story.is(an_xid(code, {1}));
        story.is_after(1s, A::WorkerExited{1, crash});
        story.is(A::FailureExplained{0, 1, "CUDA error: an illegal memory access", "", false});
        const auto failed = story.said<ctl::Failed>();
        REQUIRE(failed.size() == 1);
        const auto& failure = failed.front().failure;
        CHECK(failure.message == "CUDA error: an illegal memory access");
        CHECK(failure.why == "the kernel reports an error of its GPU: " + of_xid(code));
    }
}

TEST_CASE("an error of another worker's GPU is not in a worker's report") {
    const auto why_after_error_of = [](std::vector<int> local_ranks) {
        auto story = running();
        join_unchecked(story);
        run_round(story, 0);
        story.is(an_xid(shown_xid, std::move(local_ranks)));
        story.is_after(1s, A::WorkerExited{1, crash});
        story.is(A::FailureExplained{0, 1, "", "", false});
        return story.said<ctl::Failed>().at(0).failure.why;
    };
    CHECK(why_after_error_of({0}).empty());
    CHECK_FALSE(why_after_error_of({0, 1}).empty());
}

TEST_CASE("an error of a GPU that no worker here uses is information only") {
    auto story = running();
    join_unchecked(story);
    story.is(an_xid(unfit_xid, {}, std::nullopt));
    run_round(story, 0);
    story.is(an_xid(unfit_xid, {}));
    story.is(an_xid(restart_xid, {}));
    CHECK(story.asked_for<A::NoteXid>().size() == 2);
    CHECK(story.said<ctl::Leave>().empty());
    CHECK(story.agent.phase() == Phase::running);
    story.pass(6s);
    CHECK(story.asked_for<G::KillSession>().empty());
}

TEST_CASE("an error that stops one process kills no worker when several have the GPU open") {
    Story story(checked());
    join_and_run(story);
    story.is(an_xid(restart_xid, {0, 1}));
    CHECK(story.asked_for<A::NoteXid>().at(0).effect.starts_with("none: several workers"));
    story.pass(6s);
    CHECK(story.asked_for<G::KillSession>().empty());
}

TEST_CASE("a verdict on a GPU that comes when its worker is gone makes the node unfit") {
    Story story(checked());
    join_and_run(story);
    story.is(an_xid(restart_xid, {1}));
    end_with_failure(story);
    story.is(A::HealthChecked{HealthAnswer::fit, ""});
    story.is(an_xid(unfit_xid, {}));
    CHECK(story.agent.phase() != Phase::running);
    CHECK(story.said<ctl::Leave>().size() == 1);
}

TEST_CASE("after the error of a GPU the check has the reason xid") {
    Story story(checked());
    join_and_run(story);
    story.is(an_xid(restart_xid, {1}));
    end_with_failure(story);
    CHECK(story.asked_for<A::CheckHealth>() == std::vector{A::CheckHealth{Reason::xid}});
    story.is(A::HealthChecked{HealthAnswer::fit, ""});
    CHECK(story.said<ctl::Ready>().size() == 1);
}

TEST_CASE("an error that is found when its round is over kills no worker of the next one") {
    Story story(checked());
    join_and_run(story);
    end_with_failure(story);
    story.is(A::HealthChecked{HealthAnswer::fit, ""});
    run_round(story, 1);
    story.is(an_xid(restart_xid, {1}, 0));
    story.pass(6s);
    CHECK(story.asked_for<G::KillSession>().empty());
}
