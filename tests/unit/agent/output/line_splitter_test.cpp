// SPDX-License-Identifier: Apache-2.0
#include "agent/output/line_splitter.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;

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
