// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;

namespace {

AgentConfig watched() {
    auto config = a_config();
    config.join.settings.hang_after = 30s;
    config.join.settings.on_hang = ctl::OnHang::restart;
    return config;
}

health::Sample in_read(int pid) {
    health::Sample sample;
    sample.pid = pid;
    sample.state = 'S';
    sample.threads = {{pid, {{"read_batch", "/home/me/loader.py", 112}}, 1}};
    return sample;
}

A::WorkersSeen both_in_read(int round = 0) {
    return {round, {{0, in_read(100)}, {1, in_read(101)}}};
}

std::vector<ctl::NodeSites> reported(Story& story) {
    std::vector<ctl::NodeSites> sites;
    for (const auto& sent : story.asked_for<A::Send>())
        if (const auto* heartbeat = std::get_if<ctl::Heartbeat>(&sent.message))
            if (heartbeat->sites) sites.push_back(*heartbeat->sites);
    return sites;
}

}  // namespace

TEST_CASE("workers are looked at in turns, and what they do is reported") {
    Story story(watched());
    run_workers(story);
    story.pass(5s);
    CHECK(story.asked_for<A::LookAtWorkers>() == std::vector{A::LookAtWorkers{0, {100, 101}}});
    story.asked();
    // Not again before the answer.
    story.pass(5s);
    CHECK(story.asked_for<A::LookAtWorkers>().empty());
    story.is(both_in_read());
    story.asked();

    story.pass(5s);
    CHECK(story.asked_for<A::LookAtWorkers>().size() == 1);
    story.is(both_in_read());
    const auto sites = reported(story);
    REQUIRE(sites.size() == 1);
    CHECK(sites[0].round == 0);
    REQUIRE(sites[0].sites.size() == 1);
    CHECK(sites[0].sites[0].activity == ctl::Activity::blocked);
    CHECK(sites[0].sites[0].place == "read_batch (loader.py:112)");
    CHECK(sites[0].sites[0].local_ranks == std::vector{0, 1});
    CHECK(sites[0].sites[0].age == 5s);
}

TEST_CASE("nothing is reported of a round that is over, or to an older server") {
    SUBCASE("of another round") {
        Story story(watched());
        run_workers(story);
        story.is(both_in_read(7));
        CHECK(reported(story).empty());
    }
    SUBCASE("to an older server") {
        Story story(watched());
        run_workers(story, 1);
        story.pass(5s);
        story.is(both_in_read());
        CHECK(reported(story).empty());
    }
}

TEST_CASE("without the option, and with a terminal, workers are not looked at") {
    auto config = a_config();
    SUBCASE("without the option") {}
    SUBCASE("with a terminal") {
        config = watched();
        config.worker.attachment = Attachment{0, true};
    }
    Story story(config);
    run_workers(story);
    story.pass(60s);
    CHECK(story.asked_for<A::LookAtWorkers>().empty());
}

TEST_CASE("a hang is shown, and the worker that is named is killed: that is its failure") {
    Story story(watched());
    run_workers(story);
    story.hears(ctl::HangFound{0, "the job hangs", {"rank 0"}, {1, 7}});
    CHECK(
        story.asked() ==
        Effects{A::NoteHang{0, "the job hangs", {"rank 0"}}, G::KillSession{1}});

    story.is(A::WorkerExited{1, by_sigkill});
    story.is(A::FailureExplained{0, 1, "", "", false});
    story.is(A::NoticeGiven{0});
    bool is_reported = false;
    for (const auto& sent : story.asked_for<A::Send>()) {
        const auto* failed = std::get_if<ctl::Failed>(&sent.message);
        if (failed == nullptr) continue;
        is_reported = true;
        CHECK(failed->failure.has_hung);
        CHECK(failed->failure.message == "the job hangs");
        CHECK(failed->failure.local_rank == 1);
    }
    CHECK(is_reported);
}

TEST_CASE("a worker that fails by itself after a hang was found did not hang") {
    Story story(watched());
    run_workers(story);
    story.hears(ctl::HangFound{0, "the job hangs", {}, {1}});
    story.is(A::WorkerExited{0, crash});
    story.is(A::FailureExplained{0, 0, "", "", false});
    story.is(A::NoticeGiven{0});
    for (const auto& sent : story.asked_for<A::Send>())
        if (const auto* failed = std::get_if<ctl::Failed>(&sent.message))
            CHECK_FALSE(failed->failure.has_hung);
}

TEST_CASE("a hang of another round is stale") {
    Story story(watched());
    run_workers(story);
    story.hears(ctl::HangFound{7, "the job hangs", {}, {0}});
    CHECK(story.asked_for<A::NoteHang>().empty());
    CHECK(story.asked_for<G::KillSession>().empty());
}
