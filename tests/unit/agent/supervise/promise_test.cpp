// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/promise.hpp"

#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;

namespace {

ctl::Welcome welcome_of(std::uint64_t epoch) {
    auto welcome = a_welcome(false);
    welcome.epoch = epoch;
    return welcome;
}

/// Connected again after the server was lost, and greeted.
void reconnect(Story& story) {
    story.loses_server();
    story.pass(1s);
    story.gets_through();
}

}  // namespace

TEST_CASE("a higher epoch ends the obedience to a lower one for good") {
    Promise promise;
    CHECK(promise.follow(0));
    CHECK(promise.follow(3));
    CHECK(promise.follow(3));
    CHECK_FALSE(promise.follow(2));
    CHECK_FALSE(promise.follow(0));
    CHECK(promise.newest_epoch() == 3);
}

TEST_CASE("a node says which epoch it has followed, and obeys no older leader") {
    Story story{a_config(3)};
    story.is(A::Began{});
    story.is(A::StoreOpened{first_store});
    story.gets_through();
    story.hears(welcome_of(5));
    story.hears(an_assignment());
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.asked();

    reconnect(story);
    bool has_told = false;
    for (const auto& effect : story.asked())
        if (const auto* send = std::get_if<A::Send>(&effect))
            if (const auto* resume = std::get_if<ctl::Resume>(&send->message))
                has_told = resume->join.epoch == 5;
    CHECK(has_told);

    SUBCASE("an older one is left, and its orders do nothing") {
        const int old_link = story.link;
        story.hears(ctl::Resumed{4});
        story.is(A::Received{old_link, a_stop()});
        CHECK(story.agent.phase() == Phase::running);
        CHECK(story.agent.stale_count() == 1);
        CHECK_FALSE(story.asked_for<A::CloseLink>().empty());
    }
    SUBCASE("a newer one is obeyed") {
        story.hears(ctl::Resumed{6});
        story.hears(a_stop());
        CHECK(story.agent.phase() == Phase::stopping);
    }
}
