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

}  // namespace

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
