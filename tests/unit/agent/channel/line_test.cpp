// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/line.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::channel;

using State = LineReader::State;

TEST_CASE("a line is the same wherever it is divided") {
    const std::string text = "ddprun-worker/1 abc 42 python\nmore\n";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        LineReader reader;
        std::vector<std::string> lines;
        for (const auto& part : {text.substr(0, cut), text.substr(cut)}) {
            reader.append(part);
            for (auto next = reader.next(); next.state == State::complete; next = reader.next())
                lines.push_back(next.line);
        }
        CHECK(lines == std::vector<std::string>{"ddprun-worker/1 abc 42 python", "more"});
    }
}

TEST_CASE("a line that is too long is refused, with its end and without") {
    for (const bool has_end : {false, true}) {
        LineReader reader;
        reader.append(std::string(limits::max_channel_line_bytes, 'x'));
        CHECK(reader.next().state == State::incomplete);
        reader.append(has_end ? "x\n" : "x");
        CHECK(reader.next().state == State::too_long);
    }
    LineReader reader;
    reader.append(std::string(1024 * 1024, 'x') + '\n');
    CHECK(reader.next().state == State::too_long);
}

TEST_CASE("a greeting has a token, a process and a language, parted by one space") {
    CHECK(parse_greeting("ddprun-worker/1 abc 42 python") == Greeting{"abc", 42, "python"});
    for (const auto* wrong :
         {"",
          "ddprun-worker/1",
          "ddprun-worker/2 abc 42 python",
          "ddprun-worker/1 abc 42",
          "ddprun-worker/1 abc 42 python ",
          "ddprun-worker/1 abc 42 python more",
          "ddprun-worker/1  42 python",
          "ddprun-worker/1 abc  python",
          "ddprun-worker/1 abc 0 python",
          "ddprun-worker/1 abc -1 python",
          "ddprun-worker/1 abc 4x python",
          "ddprun-worker/1 abc 99999999999 python",
          "ddprun-worker/1 abc 42 ",
          "ddprun-worker/1 abc 42 a-name-that-is-too-long",
          "ddprun-worker/1 abc 42 \x01",
          " ddprun-worker/1 abc 42",
          "GET / HTTP/1.1"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_greeting(wrong));
    }
}

TEST_CASE("tokens are the same when every byte is") {
    CHECK(is_same_token("0123", "0123"));
    CHECK_FALSE(is_same_token("0123", "0124"));
    CHECK_FALSE(is_same_token("0123", "1123"));
    CHECK_FALSE(is_same_token("0123", "012"));
    CHECK_FALSE(is_same_token("0123", ""));
}

TEST_CASE(
    "a worker that is held says in which round, with which step, and whether its state is "
    "complete") {
    CHECK(parse_holding("holding 3 41 clean") == Holding{3, 41, true});
    CHECK(parse_holding("holding 3 none dirty") == Holding{3, std::nullopt, false});
    for (const auto* wrong :
         {"",
          "holding",
          "holding 3 41",
          "holding 3 41 clean ",
          "holding -1 41 clean",
          "holding 3 -41 clean",
          "holding 3 41x clean",
          "holding 3 99999999999999999999 clean",
          "holding 99999999999 41 clean",
          "holding 3  clean",
          "holding 3 41 Clean",
          "Holding 3 41 clean"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_holding(wrong));
    }
}

TEST_CASE("values of the environment are one word each, whatever they contain") {
    CHECK(hold_line(3, std::chrono::milliseconds{10'000}) == "hold 3 10000");
    CHECK(
        go_line(4, {"RANK=2", "EMPTY=", "PATH=/a b%\n=c\x7F"}) ==
        "go 4 RANK=2 EMPTY= PATH=/a%20b%25%0A=c%7F");
}
