// SPDX-License-Identifier: Apache-2.0
#include "agent/output/line_prefix.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;

namespace {

std::string prefix(std::string_view text) {
    std::string out;
    LinePrefix{text, {"trainer", 3, 11, "node1"}}.append_to(out, "12:00:00.000");
    return out;
}

}  // namespace

TEST_CASE("a prefix says role, ranks, host and time") {
    CHECK(prefix("[${role_name}${local_rank}]:") == "[trainer3]:");
    CHECK(prefix("${hostname}:$rank: ") == "node1:11: ");
    CHECK(prefix("${time} $local_rank|${time}|") == "12:00:00.000 3|12:00:00.000|");
    CHECK(prefix("").empty());
}

TEST_CASE("what is no macro of a prefix stays as it was typed") {
    CHECK(prefix("$$rank ${nobody} $nobody ${rank $") == "$rank ${nobody} $nobody ${rank $");
    CHECK(prefix("${} ${rank}s $ranks") == "${} 11s $ranks");
}
