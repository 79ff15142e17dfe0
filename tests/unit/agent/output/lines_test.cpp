// SPDX-License-Identifier: Apache-2.0
#include "agent/output/lines.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace ddprun::agent;
using namespace ddprun;

namespace {

using Lines = std::vector<std::string>;

/// "text" for a whole line, "2:text" for part 2 that ends its line, "1:text~" for one that does
/// not.
std::string shown(const LinePiece& piece) {
    std::string text{piece.text};
    if (!piece.ends_line) text += '~';
    return piece.is_whole_line() ? text : std::to_string(piece.part) + ":" + text;
}

void take_all(LineSplitter& splitter, Lines& lines) {
    while (const auto piece = splitter.next())
        lines.push_back(shown(*piece));
}

Lines lines_of(const std::vector<std::string>& chunks) {
    LineSplitter splitter;
    Lines lines;
    for (const auto& chunk : chunks) {
        splitter.append(chunk);
        take_all(splitter, lines);
    }
    if (const auto piece = splitter.finish()) lines.push_back(shown(*piece));
    CHECK_FALSE(splitter.finish());
    return lines;
}

const std::string longest(limits::max_line_bytes, 'x');

}  // namespace

TEST_CASE("lines end with LF, CR LF or CR, and the last one with the end") {
    CHECK(lines_of({"one\ntwo\n"}) == Lines{"one", "two"});
    CHECK(lines_of({"one\r\ntwo\rthree"}) == Lines{"one", "two", "three"});
    CHECK(lines_of({"\n\n"}) == Lines{"", ""});
    CHECK(lines_of({"\r\n\r\n"}) == Lines{"", ""});
    CHECK(lines_of({}).empty());
}

TEST_CASE("a return where nothing was written is no line: a progress bar has no empty ones") {
    CHECK(lines_of({"\r 10%", "\r 20%", "\r 30%\n"}) == Lines{" 10%", " 20%", " 30%"});
    CHECK(lines_of({"\r\r\r"}).empty());
}

TEST_CASE("a line as long as allowed is whole, a longer one comes in parts") {
    CHECK(lines_of({longest + "\n"}) == Lines{longest});
    CHECK(lines_of({longest + "y\n"}) == Lines{"1:" + longest + "~", "2:y"});
    CHECK(
        lines_of({longest + longest + "\nz\n"}) ==
        Lines{"1:" + longest + "~", "2:" + longest, "z"});
}

TEST_CASE("no part ends inside a character") {
    const std::string euro = "\xE2\x82\xAC";
    const auto almost = longest.substr(1);

    CHECK(lines_of({almost + euro + "\n"}) == Lines{"1:" + almost + "~", "2:" + euro});

    LineSplitter splitter;
    splitter.append("price: \xE2\x82");
    CHECK_FALSE(splitter.next());
    CHECK(shown(*splitter.flush()) == "1:price: ~");
    CHECK_FALSE(splitter.flush());
    splitter.append("\xAC\n");
    CHECK(shown(*splitter.next()) == "2:" + euro);
}

TEST_CASE("an unfinished line can be had early, and goes on as its next part") {
    LineSplitter splitter;
    splitter.append("Enter a number: ");
    CHECK_FALSE(splitter.next());

    CHECK(shown(*splitter.flush()) == "1:Enter a number: ~");
    CHECK_FALSE(splitter.flush());
    splitter.append("7\nnext\n");

    Lines lines;
    take_all(splitter, lines);
    CHECK(lines == Lines{"2:7", "next"});
}

TEST_CASE("an unfinished line can be looked at, and stays") {
    LineSplitter splitter;
    splitter.append("whole\nprice: \xE2\x82");
    REQUIRE(splitter.next());
    CHECK_FALSE(splitter.next());

    CHECK(shown(splitter.unfinished()) == "1:price: ~");
    splitter.append("\xAC\n\r");
    CHECK(shown(*splitter.next()) == "price: \xE2\x82\xAC");
    CHECK_FALSE(splitter.next());
    CHECK(splitter.unfinished().text.empty());
}

TEST_CASE("a line of which all was had early is ended once") {
    LineSplitter splitter;
    splitter.append("done");
    REQUIRE(splitter.flush());

    CHECK(shown(*splitter.finish()) == "2:");
    CHECK_FALSE(splitter.finish());
}

TEST_CASE("however the bytes are cut, the lines are the same") {
    Random random{20};
    const std::vector<std::string> words{
        "a", "line", "\n", "\r", "\r\n", "\xE2\x82\xAC", "\xFF", longest, std::string{"\0", 1}};
    for (int run = 0; run < 300; ++run) {
        std::string text;
        for (int i = 0; i < 12; ++i)
            text += words[random() % words.size()];
        const auto whole = lines_of({text});

        std::vector<std::string> chunks;
        for (std::size_t at = 0; at < text.size();) {
            const auto size = 1 + random() % (run % 2 == 0 ? 3 : 9000);
            chunks.push_back(text.substr(at, size));
            at += chunks.back().size();
        }
        CAPTURE(run);
        REQUIRE(lines_of(chunks) == whole);
    }
}

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
    CHECK(prefix("$$rank ${unknown} $unknown ${rank $") == "$rank ${unknown} $unknown ${rank $");
    CHECK(prefix("${} ${rank}s $ranks") == "${} 11s $ranks");
}

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
