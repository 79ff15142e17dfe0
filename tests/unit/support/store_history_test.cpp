// SPDX-License-Identifier: Apache-2.0
#include "tests/support/store_history.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <utility>

using namespace ddprun;
using namespace ddprun::test;
using namespace ddprun::wire;

namespace {

Operation between(int began, int ended, Request request, std::optional<Reply> reply = {}) {
    const auto at = [](int moment) { return Instant{std::chrono::seconds{moment}}; };
    return {std::move(request), std::move(reply), at(began), at(ended)};
}

const Set set_one{"k", "1"};
const Set set_two{"k", "2"};
const Get get{"k"};

}  // namespace

TEST_CASE("replies that one order of the operations explains are linearizable") {
    // The GETs see the SETs in one order, both while those are on their way.
    const History history{
        {between(0, 9, set_one)},
        {between(0, 9, set_two)},
        {between(1, 2, get, Value{"2"}), between(3, 4, get, Value{"1"})},
        {between(3, 4, get, Value{"1"})},
    };

    CHECK(Linearization::longest(history) == 5);
}

TEST_CASE("a value that was replaced before it was asked for is not explained") {
    const History history{
        {between(0, 1, set_one, {}), between(2, 3, set_two, {})},
        {between(4, 5, get, Value{"1"})},
    };

    CHECK(Linearization::longest(history) == 2);
}

TEST_CASE("two clients do not see two writes in opposite orders") {
    const History history{
        {between(0, 9, set_one)},
        {between(0, 9, set_two)},
        {between(1, 2, get, Value{"1"}), between(3, 4, get, Value{"2"})},
        {between(1, 2, get, Value{"2"}), between(3, 4, get, Value{"1"})},
    };

    CHECK(Linearization::longest(history) < 6);
}

TEST_CASE("a client sees its own write, also before that has ended") {
    const History history{{between(0, 9, set_one), between(1, 2, get, Value{""})}};

    CHECK(Linearization::longest(history) == 1);
}

TEST_CASE("an addition that is lost, or counted twice, is not explained") {
    const auto two_counts = [](int second) {
        return History{
            {between(0, 9, Add{"c", 1}, Number{1})},
            {between(0, 9, Add{"c", 1}, Number{second})},
        };
    };

    CHECK(Linearization::longest(two_counts(1)) == 1);
    CHECK(Linearization::longest(two_counts(3)) == 1);
    CHECK(Linearization::longest(two_counts(2)) == 2);
}

TEST_CASE("half of a MULTI_SET is not explained") {
    const History history{
        {between(0, 9, MultiSet{{{"a", "1"}, {"b", "1"}}})},
        {between(0, 9, MultiGet{{"a", "b"}}, Values{{"1", ""}})},
    };

    CHECK(Linearization::longest(history) == 1);
}
