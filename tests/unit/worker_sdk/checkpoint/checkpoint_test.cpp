// SPDX-License-Identifier: Apache-2.0
#include "ddprun/checkpoint.hpp"

#include "ddprun/error.hpp"

#include <doctest/doctest.h>

using namespace ddprun;

namespace {

World world(std::string incarnation, int round) {
    World made;
    made.incarnation = std::move(incarnation);
    made.round = round;
    return made;
}

Checkpoint saved(const World& by, const Checkpoint* resumed) {
    Checkpoint checkpoint;
    CheckpointRound{by, resumed}.write_to(checkpoint);
    return checkpoint;
}

}  // namespace

TEST_CASE("the rounds of one incarnation are the launcher's") {
    const auto first = saved(world("life", 0), nullptr);
    const auto third = saved(world("life", 2), &first);

    CHECK(first.round == 0);
    CHECK(third.round == 2);
}

TEST_CASE("a job that is started again counts on from its checkpoint") {
    const auto old = saved(world("old", 4), nullptr);

    const auto first = saved(world("new", 0), &old);
    const auto second = saved(world("new", 1), &first);

    CHECK(old.round == 4);
    CHECK(first.round == 5);
    CHECK(second.round == 6);
}

TEST_CASE("under a launcher without incarnations every start is a later round") {
    const auto first = saved(world("", 0), nullptr);
    const auto second = saved(world("", 0), &first);

    CHECK(first.round == 0);
    CHECK(second.round == 1);
}

TEST_CASE("a checkpoint without the texts of CheckpointRound is an earlier incarnation") {
    Checkpoint foreign;
    foreign.round = 7;
    foreign.texts["ddprun.incarnation"] = "life";
    foreign.texts["ddprun.round_base"] = "12x";

    CHECK(saved(world("life", 0), &foreign).round == 8);
}

TEST_CASE("a missing tensor or text of a checkpoint is named") {
    Checkpoint checkpoint;
    checkpoint.add("step", std::int64_t{3});
    float values[2] = {};

    CHECK(checkpoint.integer("step") == 3);
    CHECK_THROWS_WITH_AS(
        checkpoint.integer("epoch"), "the checkpoint has no tensor 'epoch'", Error);
    CHECK_THROWS_WITH_AS(
        checkpoint.real("step"), "tensor 'step' of the checkpoint is not of type double", Error);
    CHECK_THROWS_WITH_AS(checkpoint.text("a"), "the checkpoint has no text 'a'", Error);
    checkpoint.add("weight", values, 1);
    CHECK_THROWS_WITH_AS(
        checkpoint.copy_to("weight", values, 2),
        "tensor 'weight' of the checkpoint has 1 values, expected are 2",
        Error);
}
