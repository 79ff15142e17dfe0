// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/neighbours.hpp"

#include <doctest/doctest.h>

using namespace ddprun::coordinator;

using Ring = std::vector<std::size_t>;

TEST_CASE("neighbours are the next three in the round") {
    const auto all = choose_neighbours({"a", "b", "c", "d", "e"});

    CHECK(all.at(0) == Ring{1, 2, 3});
    CHECK(all.at(3) == Ring{4, 0, 1});
}

TEST_CASE("a small job has fewer neighbours, one node none") {
    CHECK(choose_neighbours({"a"}) == std::vector<Ring>{{}});
    CHECK(choose_neighbours({"a", "b"}) == std::vector<Ring>{{1}, {0}});
    CHECK(choose_neighbours({}).empty());
}

TEST_CASE("neighbours live on other hosts, each on its own as far as there are so many") {
    const auto pairs = choose_neighbours({"a", "a", "b", "b", "c", "c", "d", "d"});
    CHECK(pairs.at(0) == Ring{2, 4, 6});
    CHECK(pairs.at(7) == Ring{0, 2, 4});

    const auto mixed = choose_neighbours({"a", "b", "a", "b", "c"});
    CHECK(mixed.at(0) == Ring{1, 4, 3});
    CHECK(mixed.at(1) == Ring{2, 4, 0});
}

TEST_CASE("with two hosts the neighbours are on the other one") {
    const auto all = choose_neighbours({"a", "a", "a", "a", "b", "b"});

    CHECK(all.at(0) == Ring{4, 5});
    CHECK(all.at(4) == Ring{0, 1, 2});
    CHECK(all.at(5) == Ring{0, 1, 2});
}

TEST_CASE("on one host they can only be there") {
    CHECK(choose_neighbours({"a", "a", "a"}) == std::vector<Ring>{{1, 2}, {2, 0}, {0, 1}});
}
