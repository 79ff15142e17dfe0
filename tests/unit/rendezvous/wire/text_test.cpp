// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/text.hpp"

#include <doctest/doctest.h>

using namespace ddprun::wire;

TEST_CASE("a message is one printable line") {
    CHECK(describe(Request{Set{"/k", "four"}}) == "SET \"/k\" 4 B");
    CHECK(describe(Request{Wait{{"/a", "/b"}}}) == "WAIT [\"/a\", \"/b\"]");
    CHECK(
        describe(Request{Check{{"1", "2", "3", "4", "5", "6"}}}) ==
        "CHECK [\"1\", \"2\", \"3\", \"4\", and 2 more]");
    CHECK(describe(Request{Barrier{"/b", 3}}) == "BARRIER \"/b\" of 3");
    CHECK(describe(Request{NumKeys{}}) == "GETNUMKEYS");
    CHECK(describe(Reply{Popped{2, "job"}}) == "popped 3 B of 2");
    CHECK(describe(Reply{StopWaiting{}}) == "stop waiting");
}

TEST_CASE("bytes that cannot be printed are escaped and long ones cut") {
    CHECK(in_quotes(std::string{"a\0\"\\\xff", 5}) == "\"a\\x00\\\"\\\\\\xff\"");
    CHECK(in_quotes("abcdef", 3) == "\"abc\"...");
}
