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

TEST_CASE("any bytes become a JSON string") {
    std::string out = "x:";
    append_json_string(out, "say \"hi\"");
    CHECK(out == R"(x:"say \"hi\"")");
    const auto quoted = [](std::string_view text) {
        std::string result;
        append_json_string(result, text);
        return result;
    };
    CHECK(quoted("") == "\"\"");
    CHECK(quoted("plain text") == "\"plain text\"");
    CHECK(quoted("a\nb") == "\"a\\nb\"");
    CHECK(quoted("a\xFF\xC3(b") == "\"a\xEF\xBF\xBD\xEF\xBF\xBD(b\"");
    CHECK(quoted("\xF0\x9F\x98\x80") == "\"\xF0\x9F\x98\x80\"");
    CHECK(quoted({"\0\x1f\x7f", 3}) == "\"\\u0000\\u001f\\u007f\"");
}
