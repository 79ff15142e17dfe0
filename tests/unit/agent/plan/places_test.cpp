// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/places.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;

namespace {

const Endpoint a{"a", 1};
const Endpoint b{"b", 2};
const Endpoint c{"c", 3};

/// The next ones, by name.
std::string turns(Places& places, int count) {
    std::string names;
    for (int i = 0; i < count; ++i)
        names += places.next().host;
    return names;
}

Places at(std::size_t own, std::vector<Endpoint> typed) {
    Places places{std::move(typed)};
    places.listen_at(own);
    return places;
}

}  // namespace

TEST_CASE("places are asked in turn, in the order of the command line") {
    Places places{{a, b, c}};

    CHECK_FALSE(places.own());
    CHECK(turns(places, 4) == "abca");
    CHECK(describe(places.all()) == "a:1,b:2,c:3");
}

TEST_CASE("the process at the first place asks the others first, and its own server after them") {
    auto places = at(0, {a, b, c});

    CHECK(turns(places, 5) == "bcabc");
    auto alone = at(0, {a});
    CHECK(turns(alone, 2) == "aa");
}

TEST_CASE("the process at another place asks its own server too, which a leader may have claimed") {
    auto places = at(1, {a, b, c});

    CHECK(turns(places, 4) == "abca");
}

TEST_CASE("a record is begun at the only place at once") {
    CHECK(at(0, {a}).may_begin_record());
    CHECK_FALSE(Places{{a}}.may_begin_record());
}

TEST_CASE(
    "a record is begun at the first place when the others were asked, and most know of none") {
    auto places = at(0, {a, b, c});
    CHECK_FALSE(places.may_begin_record());

    places.next();
    places.knows_none(b);
    // The last one has not been asked.
    CHECK_FALSE(places.may_begin_record());

    places.next();
    CHECK(places.may_begin_record());
    places.end_asking();
    CHECK_FALSE(places.may_begin_record());
}

TEST_CASE("a silent place is waited for where it would be half of them") {
    auto places = at(0, {a, b});

    places.next();
    CHECK_FALSE(places.may_begin_record());
    places.next();
    places.knows_none(a);
    CHECK_FALSE(places.may_begin_record());
    places.knows_none(b);
    CHECK(places.may_begin_record());
}

TEST_CASE("what a place has answered holds until it is asked again") {
    auto places = at(0, {a, b});
    places.next();
    places.knows_none(b);
    REQUIRE(places.may_begin_record());

    turns(places, 2);

    CHECK_FALSE(places.may_begin_record());
}

TEST_CASE("in the first turn each place is asked once") {
    Places places{{a, b}};
    CHECK(places.is_first_turn());
    turns(places, 2);
    CHECK(places.is_first_turn());
    places.next();
    CHECK_FALSE(places.is_first_turn());
}

TEST_CASE("an answer of another address than the places counts for none of them") {
    auto places = at(0, {a, b});

    places.next();
    places.knows_none({"b", 3});

    CHECK_FALSE(places.may_begin_record());
}

TEST_CASE("at another place than the first one no record is begun") {
    auto places = at(1, {a, b, c});

    turns(places, 3);
    places.knows_none(a);
    places.knows_none(c);

    CHECK_FALSE(places.may_begin_record());
}
