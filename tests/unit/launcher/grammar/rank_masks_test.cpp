// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/rank_masks.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::launcher;

TEST_CASE("masks are read for all ranks, one rank, ranges, and ranks of the job") {
    struct Row {
        const char* text;
        std::vector<RankMask> masks;
    };
    const std::vector<Row> rows{
        {"0", {{{}, false, false}}},
        {"3", {{{}, true, true}}},
        {"0:1", {{{0, 0}, true, false}}},
        {"0:3,1:0,2:1,3:2",
         {{{0, 0}, true, true},
          {{1, 1}, false, false},
          {{2, 2}, true, false},
          {{3, 3}, false, true}}},
        {"11:3,0-7:1", {{{11, 11}, true, true}, {{0, 7}, true, false}}},
        {"g8-15:2,g0:3", {{{8, 15, true}, false, true}, {{0, 0, true}, true, true}}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        const auto masks = parse_rank_masks(row.text);
        REQUIRE(masks.has_value());
        CHECK(*masks == row.masks);
        CHECK(describe(*masks) == row.text);
        CHECK(*parse_rank_masks(describe(*masks)) == *masks);
    }
}

TEST_CASE("what is no mask is refused, and the words say what is accepted") {
    for (const auto* text : {"",         "4",        "11",    "-1",      "0:1,",  "0:1,1",
                             "0:4",      ":1",       "0:",    "0-:1",    "7-0:1", "-1:1",
                             "0:1 ,1:1", "g:1",      "gg1:1", "1-2-3:1", "x:1",   "99999999999:1",
                             "+1:1",     "0:1,,1:1", "0::1",  "3,3"}) {
        CAPTURE(text);
        const auto masks = parse_rank_masks(text);
        REQUIRE_FALSE(masks.has_value());
        CHECK(masks.error().context.find("accepted are") != std::string::npos);
    }
}

TEST_CASE("a list of ranks has numbers, ranges and ranks of the job") {
    CHECK(
        *parse_ranks("0, 2,4-7,g9") ==
        std::vector<RankRange>{{0, 0}, {2, 2}, {4, 7}, {9, 9, true}});
    for (const auto* text : {"a", "0,", "0;1", "-1", "1-", ","})
        CHECK_FALSE(parse_ranks(text).has_value());
}
