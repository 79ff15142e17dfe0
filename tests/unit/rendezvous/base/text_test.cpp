// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a list is split at each separator, and blanks around a text go") {
    using Parts = std::vector<std::string_view>;
    CHECK(split("a,b,,c", ',') == Parts{"a", "b", "", "c"});
    CHECK(split("", ',') == Parts{""});
    CHECK(split("a,", ',') == Parts{"a", ""});
    CHECK(trimmed(" \ta b\r\n") == "a b");
    CHECK(trimmed(" \n") == "");
    CHECK(trimmed(" a\n", " ") == "a\n");
}

TEST_CASE("a word for a shell is quoted unless all of its characters are plain") {
    CHECK(shell_word("/data/a-b_1.2,x=3:4@5%+") == "/data/a-b_1.2,x=3:4@5%+");
    CHECK(shell_word("") == "''");
    CHECK(shell_word("it's mine") == "'it'\\''s mine'");
    for (const std::string special :
         {" ", "$", "*", "~", "!", "[", "]", "^", "{", "\n", "\xc3\xa9"})
        CHECK(shell_word("a" + special) == "'a" + special + "'");
}

TEST_CASE("a list is shortened to its first items and the number of the others") {
    using Names = std::vector<std::string>;
    CHECK(short_list(Names{}, {2}) == "");
    CHECK(short_list(Names{"a"}, {2}) == "a");
    CHECK(short_list(Names{"a", "b"}, {2}) == "a, b");
    CHECK(short_list(Names{"a", "b", "c", "d"}, {2}) == "a, b and 2 more");
    CHECK(short_list(Names{"a", "b", "c"}, {2, "; ", "; and "}) == "a; b; and 1 more");
    const auto rank = [](int number) { return "rank " + std::to_string(number); };
    CHECK(short_list(std::vector<int>{3, 5}, {1}, rank) == "rank 3 and 1 more");
}

TEST_CASE("the last line that is not blank, without its blanks") {
    CHECK(last_line("one\r\n  two \r\n\n \n") == "two");
    CHECK(last_line("progress\rdone") == "done");
    CHECK(last_line("  only ") == "only");
    CHECK(last_line(" \n\r\n") == "");
    CHECK(last_line("") == "");
}

TEST_CASE("a signal has a name, and a number that is none says so") {
    CHECK(signal_name(SIGKILL) == "SIGKILL");
    CHECK(signal_name(SIGRTMIN + 3) == "SIGRTMIN+3");
    CHECK(signal_name(99) == "signal 99");
    CHECK(signal_name(0) == "signal 0");
}

TEST_CASE("lengths of time read as seconds, without trailing zeros") {
    CHECK(seconds_text(30s) == "30 s");
    CHECK(seconds_text(2500ms) == "2.5 s");
    CHECK(seconds_text(10'000'000s) == "10000000 s");
    CHECK(seconds_text(1ms) == "0.001 s");
}
