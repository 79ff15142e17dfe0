// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;

namespace {

constexpr int with_progress = 2;

/// A node of a round, whose server speaks this version.
struct ReportingNode : Story {
    explicit ReportingNode(int version) {
        is(A::Began{});
        is(A::StoreOpened{first_store});
        link = 1;
        is(A::LinkOpened{1, "10.0.0.2:40000", version});
        hears(a_welcome());
        hears(an_assignment(3));
        is(A::WorkerSpawned{0, 100});
        is(A::WorkerSpawned{1, 101});
        asked();
    }
};

ctl::NodeProgress at_step(std::uint64_t step, int round = 3) {
    return {round, {{0, {step, ctl::WorkPhase::train}}}};
}

Effects report(int link, const ctl::NodeProgress& progress) {
    return {A::Send{link, ctl::Heartbeat{0, std::nullopt, std::nullopt, progress}}};
}

}  // namespace

TEST_CASE("what the workers report is passed on when it is something else than before") {
    ReportingNode story(with_progress);
    story.is(A::ProgressRead{at_step(7)});
    CHECK(story.asked() == report(1, at_step(7)));
    story.is(A::ProgressRead{at_step(7)});
    CHECK(story.asked().empty());
    story.is(A::ProgressRead{at_step(3)});
    CHECK(story.asked() == report(1, at_step(3)));
}

TEST_CASE("a server of the first version gets no progress") {
    ReportingNode story(1);
    story.is(A::ProgressRead{at_step(7)});
    CHECK(story.asked().empty());
}

TEST_CASE("progress of another round is not passed on") {
    ReportingNode story(with_progress);
    story.is(A::ProgressRead{at_step(7, 2)});
    CHECK(story.asked().empty());
}

TEST_CASE("a server that is there again gets the progress again") {
    ReportingNode story(with_progress);
    story.is(A::ProgressRead{at_step(7)});
    story.loses_server();
    if (story.asked_for<A::Connect>().empty()) story.pass(1s);
    const auto tried = story.asked_for<A::Connect>();
    REQUIRE_FALSE(tried.empty());
    story.asked();
    story.is(A::ProgressRead{at_step(8)});
    CHECK(story.asked().empty());

    story.link = tried.back().link;
    story.is(A::LinkOpened{story.link, "10.0.0.2:40001", with_progress});
    story.asked();
    story.hears(ctl::Resumed{});
    const auto said = story.said<ctl::Heartbeat>();
    REQUIRE(said.size() == 1);
    CHECK(said.front().progress == at_step(8));
}

TEST_CASE("progress that waits for the server gets older") {
    ReportingNode story(with_progress);
    auto progress = at_step(7);
    progress.age = 50ms;
    story.is(A::ProgressRead{progress});
    CHECK(story.asked() == report(1, progress));
}

TEST_CASE("the newest goodput of the job goes to the server that knows nothing of it") {
    ReportingNode story(with_progress);
    ctl::Goodput goodput;
    goodput[ctl::GoodputPhase::productive] = 1h;
    ctl::HeartbeatAck ack{0};
    ack.goodput = goodput;
    story.hears(ack);
    ack.goodput.reset();
    story.hears(ack);
    story.pass(2s);
    story.loses_server();
    if (story.asked_for<A::Connect>().empty()) story.pass(1s);
    const auto tried = story.asked_for<A::Connect>();
    REQUIRE_FALSE(tried.empty());
    story.link = tried.back().link;
    story.asked();
    SUBCASE("of the same version") {
        story.is(A::LinkOpened{story.link, "10.0.0.2:40001", with_progress});
        const auto said = story.said<ctl::Resume>();
        REQUIRE(said.size() == 1);
        CHECK(said.front().goodput == goodput);
        CHECK(said.front().goodput_age >= Duration{2s});
    }
    SUBCASE("not to one of the first version") {
        story.is(A::LinkOpened{story.link, "10.0.0.2:40001", 1});
        const auto said = story.said<ctl::Resume>();
        REQUIRE(said.size() == 1);
        CHECK_FALSE(said.front().goodput);
    }
}
