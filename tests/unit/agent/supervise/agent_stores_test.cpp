// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace ddprun::agent;

namespace {

using I = AgentInterface;
using Effects = NodeStores::Effects;

struct StoresStory {
    NodeStores stores;
    Effects out;

    void opens(std::uint16_t port) {
        stores.open(out);
        stores.on_opened(port);
    }
    Effects asked() { return std::exchange(out, {}); }
};

}  // namespace

TEST_CASE("a fresh store is opened once, however often it is asked for") {
    StoresStory story;
    story.stores.open(story.out);
    story.stores.open(story.out);
    CHECK((story.asked() == Effects{I::OpenStore{}}));
    story.stores.on_opened(20'001);
    story.stores.open(story.out);
    CHECK(story.asked().empty());
    CHECK(story.stores.fresh() == 20'001);
}

TEST_CASE("the first node's store serves one round only") {
    StoresStory story;
    story.opens(20'001);
    story.stores.begin_round(true, true, story.out);
    CHECK_FALSE(story.stores.fresh());
    CHECK(story.stores.offered() == 20'001);
    story.opens(20'003);
    CHECK(story.stores.offered() == 20'003);
    story.asked();

    story.stores.begin_round(true, true, story.out);
    CHECK((story.asked() == Effects{I::CloseStore{20'001}}));
    story.stores.close_all(story.out);
    CHECK((story.asked() == Effects{I::CloseStore{20'003}}));
    CHECK(story.stores.offered() == 0);
}

TEST_CASE("a node that is not the first keeps its store for the next round") {
    StoresStory story;
    story.opens(20'001);
    story.asked();
    story.stores.begin_round(false, true, story.out);
    CHECK(story.asked().empty());
    CHECK(story.stores.fresh() == 20'001);
}

TEST_CASE("where workers serve the store its port is free when they are started") {
    StoresStory story;
    story.opens(20'001);
    story.asked();
    story.stores.begin_round(true, false, story.out);
    CHECK((story.asked() == Effects{I::CloseStore{20'001}}));
    CHECK(story.stores.offered() == 0);
}

TEST_CASE("a store that a server may have named to others is not offered again") {
    StoresStory story;
    story.opens(20'001);
    story.asked();
    story.stores.discard_fresh(story.out);
    CHECK((story.asked() == Effects{I::CloseStore{20'001}}));
    CHECK_FALSE(story.stores.fresh());
}
