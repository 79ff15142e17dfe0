// SPDX-License-Identifier: Apache-2.0
#include "ddprun/error.hpp"
#include "examples/mnist/comparison.hpp"

#include <doctest/doctest.h>

#include <cmath>

using ddprun::Checkpoint;
using mnist::compare_parameters;

namespace {

Checkpoint with(std::vector<float> first, std::vector<float> second) {
    Checkpoint checkpoint;
    checkpoint.add("parameters/first", {first.size()}, first);
    checkpoint.add("parameters/second", {second.size()}, second);
    return checkpoint;
}

std::string compared(const Checkpoint& a, const Checkpoint& b) {
    const auto difference = compare_parameters(a, b);
    return difference ? describe(*difference) : "same";
}

}  // namespace

TEST_CASE("only parameters count, not where the run was") {
    auto a = with({1, 2}, {3});
    auto b = with({1, 2}, {3});
    a.round = 1;
    a.add("momentum/first", 1.0);
    b.add("step", std::int64_t{7});

    CHECK(compared(a, b) == "same");
}

TEST_CASE("the first difference and the largest one are named") {
    CHECK(
        compared(with({1, 2}, {3, 4}), with({1, 2.5F}, {3, 6})) ==
        "parameter first differs\nlargest difference 2, in second");
    CHECK(
        compared(with({1}, {3}), with({1}, {3.5F})) ==
        "parameter second differs\nlargest difference 0.5, in second");
}

TEST_CASE("bits are compared: a signed zero differs, the same NaN does not") {
    CHECK(
        compared(with({0}, {}), with({-0.0F}, {})) ==
        "parameter first differs\nlargest difference 0, in first");
    CHECK(compared(with({std::nanf("")}, {}), with({std::nanf("")}, {})) == "same");
    CHECK(
        compared(with({std::nanf("")}, {}), with({1}, {})) ==
        "parameter first differs\nlargest difference inf, in first");
}

TEST_CASE("a parameter of one side only, or of another shape, is said") {
    auto more = with({1}, {2});
    more.add("parameters/third", 1.0);

    CHECK(compared(more, with({1}, {2})) == "parameter third is missing in the second");
    CHECK(compared(with({1}, {2}), more) == "parameter third is missing in the first");
    CHECK(
        compared(with({1}, {2}), with({1, 1}, {2})) ==
        "parameter first is of another shape or type in the second");
}

TEST_CASE("a checkpoint without parameters cannot be compared") {
    CHECK_THROWS_WITH_AS(
        compare_parameters(Checkpoint{}, with({1}, {2})),
        "the first checkpoint has no tensor 'parameters/...'",
        ddprun::Error);
}
