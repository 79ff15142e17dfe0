// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/whole_lines.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("lines of a host go on whole, and the last one gets an end") {
    WholeLines lines;
    CHECK(lines.append("a\nb").starts_with("a\n"));
    CHECK(lines.append("c").empty());
    CHECK(lines.append("\rd\ne") == "bc\rd\n");
    CHECK(lines.finish() == "e\n");
    CHECK(lines.finish().empty());
}

TEST_CASE("a line without an end does not grow without a bound") {
    WholeLines lines;
    const std::string much(limits::max_line_bytes, 'x');
    CHECK(lines.append(much) == much);
    CHECK(lines.finish().empty());
}
