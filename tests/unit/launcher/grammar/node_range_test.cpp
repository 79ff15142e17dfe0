// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/node_range.hpp"

#include "rendezvous/control/text.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

std::string read(std::string_view text) {
    const auto range = parse_node_range(text);
    return range ? describe(*range) : range.error().context;
}

/// "2:6+1 in 2", or what is wrong.
std::string narrowed(std::string_view range, std::string_view unit) {
    const auto result = with_unit(*parse_node_range(range), "--nnodes", unit);
    if (!result) return result.error().context;
    return describe(*result) + (result->unit ? " in " + std::to_string(*result->unit) : "");
}

}  // namespace

TEST_CASE("a unit narrows a range to its multiples, and nodes above them are spares") {
    CHECK(narrowed("4", "2") == "4 in 2");
    CHECK(narrowed("2:7", "2") == "2:6+1 in 2");
    CHECK(narrowed("1:8", "4") == "4:8 in 4");
    CHECK(narrowed("3:5+1", "4") == "4+2 in 4");
    CHECK(narrowed("2:6+1", "2") == "2:6+1 in 2");
    CHECK(narrowed("3:5", "1") == "3:5");
}

TEST_CASE("a unit without a multiple in the range is named with those that have one") {
    CHECK(
        narrowed("5:7", "4") ==
        "'4': no multiple of it is in 5:7 (--nnodes); accepted there are 1, 2, 3, 5, 6, 7");
    CHECK(
        narrowed("6", "7") ==
        "'7': no multiple of it is in 6 (--nnodes); accepted there are 1, 2, 3, 6");
    CHECK(
        narrowed("1:20", "21").ends_with(" are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 8 more"));
    for (const auto* unit : {"", "0", "-2", "two", "1.5", "99999999999"})
        CHECK(narrowed("4", unit).ends_with("': accepted is a whole number from 1 up"));
}

TEST_CASE("a range of nodes is a number, or a minimum and a maximum, and perhaps spares") {
    CHECK(*parse_node_range("4") == control::NodeRange{4, 4, 0});
    CHECK(*parse_node_range("2:4") == control::NodeRange{2, 4, 0});
    CHECK(*parse_node_range("2:4+1") == control::NodeRange{2, 4, 1});
    CHECK(*parse_node_range("4+2") == control::NodeRange{4, 4, 2});
    CHECK(*parse_node_range(" 1:1 ") == control::NodeRange{1, 1, 0});
}

TEST_CASE("a range reads back as it is described") {
    for (const auto* text : {"1", "4", "2:4", "2:4+1", "4+2"})
        CHECK(read(text) == text);
}

TEST_CASE("a wrong range says what is wrong and what is accepted") {
    CHECK(
        read("4:2") ==
        "'4:2': MIN is larger than MAX; accepted are N, MIN:MAX and MIN:MAX+SPARES with 1 <= MIN "
        "<= MAX <= 65536");
    CHECK(read("70000").starts_with("'70000': too many nodes; "));
    CHECK(read("1+70000").starts_with("'1+70000': too many nodes; "));
    for (const auto* text : {"", "0", "-1", "0:2", "1:2:3", "a", "2:", ":2", "2+", "2+-1", "1.5"}) {
        CAPTURE(text);
        CHECK(read(text).starts_with("'" + std::string{text} + "': accepted are N"));
    }
}
