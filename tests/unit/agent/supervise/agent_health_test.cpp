// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <csignal>
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
