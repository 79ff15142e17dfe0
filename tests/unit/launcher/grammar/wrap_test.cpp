// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/wrap.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;
using Ranks = std::vector<ddprun::agent::RankRange>;

Words words_of(const std::string& text) {
    const auto wrap = parse_wrap(text);
    return wrap ? wrap->words : Words{"refused: " + wrap.error().context};
}

Ranks ranks_of(const std::string& text) {
    const auto wrap = parse_wrap(text);
    return wrap ? wrap->ranks : Ranks{};
}

}  // namespace

TEST_CASE("a wrapper has ranks before the first colon, and a command behind it") {
    CHECK(ranks_of("all: strace") == Ranks(1));
    CHECK(ranks_of("0:gdb") == Ranks{{0, 0, false}});
    CHECK(ranks_of(" 0,2-3 : gdb -ex run") == Ranks{{0, 0, false}, {2, 3, false}});
    CHECK(ranks_of("g8-15: gdb") == Ranks{{8, 15, true}});
    CHECK(words_of("0:gdb") == Words{"gdb"});
    CHECK(words_of("0: nsys profile -o a:%r") == Words{"nsys", "profile", "-o", "a:%r"});
}

TEST_CASE("the words of a wrapper are quoted as for a shell, and nothing is expanded") {
    CHECK(
        words_of("0: gdb -ex 'break main'  -ex run") ==
        Words{"gdb", "-ex", "break main", "-ex", "run"});
    CHECK(words_of(R"(0: a "b c"d\ e '' '\')") == Words{"a", "b cd e", "", "\\"});
    CHECK(words_of("0: a $HOME *") == Words{"a", "$HOME", "*"});
}

TEST_CASE("what is no wrapper is refused with what is accepted") {
    const std::string form = "accepted is 'RANKS: COMMAND', as in 'all: strace -f' or '0,2-3: gdb'";
    for (const std::string text : {"gdb", "0:", "all: ", "0: '' x"})
        CHECK(words_of(text) == Words{"refused: '" + text + "': " + form});
    CHECK(words_of("0: gdb 'x") == Words{"refused: '0: gdb 'x': a quote is not closed"});
    CHECK(words_of("0: gdb x\\") == Words{"refused: '0: gdb x\\': a quote is not closed"});
    CHECK_FALSE(parse_wrap("every: gdb").has_value());
    CHECK_FALSE(parse_wrap("3-1: gdb").has_value());
    CHECK_FALSE(parse_wrap(": gdb").has_value());
}
