// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/json_text.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;

TEST_CASE("text is cut between characters, and bytes that are none are not held back") {
    CHECK(whole_character_bytes("") == 0);
    CHECK(whole_character_bytes("abc") == 3);
    CHECK(whole_character_bytes("ab\xC3") == 2);
    CHECK(whole_character_bytes("ab\xC3\xA4") == 4);
    CHECK(whole_character_bytes("\xE2\x82") == 0);
    CHECK(whole_character_bytes("a\xF0\x9F\x98") == 1);
    CHECK(whole_character_bytes("a\xF0\x9F\x98\x80") == 5);
    CHECK(whole_character_bytes("a\xFF") == 2);
    CHECK(whole_character_bytes("\x80\x80\x80\x80") == 4);
}

TEST_CASE("escaped text is as long as allowed, and never breaks an escape") {
    CHECK(escaped("plain text") == "plain text");
    CHECK(escaped("a\nb", 2) == "a");
    CHECK(escaped("a\nb", 3) == "a\\n");
    CHECK(escaped("a\nb", 4) == "a\\nb");
    CHECK(escaped("abcdef", 4) == "abcd");
    std::string out = "x:";
    append_json_string(out, "say \"hi\"");
    CHECK(out == R"(x:"say \"hi\"")");
}
