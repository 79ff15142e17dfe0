// SPDX-License-Identifier: Apache-2.0
#include "agent/output/json_line.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;

namespace {

std::string line(const LinePiece& piece, const std::string& run = "job") {
    std::string out;
    JsonLine{{run, 2, "node1", 11, "stderr"}}.append_to(out, piece, "2026-01-01T00:00:00.000Z");
    return out;
}

const std::string begin =
    R"({"time":"2026-01-01T00:00:00.000Z","run":"job","round":2,"host":"node1","rank":11,"stream":"stderr",)";

}  // namespace

TEST_CASE("a line of output is one JSON object on one line") {
    CHECK(line({"hello"}) == begin + "\"message\":\"hello\"}\n");
    CHECK(line({""}) == begin + "\"message\":\"\"}\n");
}

TEST_CASE("what would break a JSON line is escaped, what is not UTF-8 replaced") {
    CHECK(
        line({"a\"b\\c\td\x01\xFF\xE2\x82"}) ==
        begin + "\"message\":\"a\\\"b\\\\c\\td\\u0001\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"}\n");
    CHECK(line({"x"}, "a\"\n").find(R"("run":"a\"\n")") != std::string::npos);
}

TEST_CASE("a part of a line says which it is, and whether more follows") {
    CHECK(line({"a", 1, false}) == begin + "\"part\":1,\"continues\":true,\"message\":\"a\"}\n");
    CHECK(line({"b", 2, true}) == begin + "\"part\":2,\"message\":\"b\"}\n");
}
