// SPDX-License-Identifier: Apache-2.0
#include "agent/output/progress_pattern.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

ProgressPattern pattern(const std::string& text) {
    return ProgressPattern::parse(text).value();
}

ProgressReader reader(const std::string& text = "step[ =]([0-9]+)") {
    return ProgressReader{pattern(text)};
}

}  // namespace

TEST_CASE("the first group of a pattern is the step") {
    CHECK(pattern("step[ =]([0-9]+)").step_in("epoch 3 step=12 loss 0.5") == 12);
    CHECK(pattern("(\\d+)/\\d+").step_in(" 4%|#  | 40/1000 [00:01]") == 40);
    CHECK(pattern("n[\\d.]*=([\\d]+)").step_in("n1.2=7") == 7);
    CHECK_FALSE(pattern("step ([0-9]+)").step_in("stop 5"));
    CHECK_FALSE(pattern("step (.*)").step_in("step 5a"));
    CHECK_FALSE(pattern("step( [0-9]+)?").step_in("step"));
    CHECK_FALSE(pattern("step ([0-9]+)").step_in("step 18446744073709551616"));
}

TEST_CASE("what is no pattern for a step is refused") {
    for (const auto* text : {"step", "step ([0-9]+", "(a)\\1", "*(", "", "[[:nothing:]](a)"}) {
        CAPTURE(text);
        CHECK_FALSE(ProgressPattern::parse(text).has_value());
    }
    CHECK_FALSE(ProgressPattern::parse("(a)" + std::string(2'000, 'b')).has_value());
}

TEST_CASE("in brackets a backslash is a character, as POSIX has it") {
    // Back references behind a bracket expression that ends with a backslash.
    for (const auto* text :
         {"(.*)[\\]\\1", "(.*)[^\\]\\1", "(.*)[]\\]\\1", "(.*)[[:alpha:]\\]\\1"}) {
        CAPTURE(text);
        CHECK_FALSE(ProgressPattern::parse(text).has_value());
    }
    CHECK(pattern("[[:alpha:]\\d]=([0-9]+)").step_in("7=8") == 8);
    CHECK(pattern("[[:alpha:]\\d]=([0-9]+)").step_in("n=8") == 8);
    CHECK(pattern("[]\\d]=([0-9]+)").step_in("]=9") == 9);
    CHECK(pattern("x[^]\\d]([0-9]+)").step_in("x]1 x12 x=3") == 3);
    CHECK(pattern("[[.].]\\d]=([0-9]+)").step_in("]=4") == 4);
    CHECK(pattern("a[\\1]([0-9]+)").step_in("a\\5") == 5);
    for (const auto* text : {"([0-9])[", "([0-9])[^", "([0-9])[]", "([0-9])[[:", "([0-9])[a\\"}) {
        CAPTURE(text);
        CHECK_FALSE(ProgressPattern::parse(text).has_value());
    }
}

TEST_CASE("repetitions that would take all memory are refused before they are compiled") {
    std::string nested = "([0-9])";
    for (int i = 0; i < 40; ++i)
        nested = "(" + nested + ")+";
    for (const auto& text :
         {std::string{"((((([0-9]{1,99}){99}){99}){99}){99})"},
          std::string{"([0-9]){2001}"},
          std::string{"([0-9]){2000,}"},
          std::string{"([0-9]){99999999999999999999999}"},
          std::string{"([0-9]{50}){50}"},
          std::string{"(([0-9]{20}{20}){20}"},
          nested}) {
        CAPTURE(text);
        CHECK(
            ProgressPattern::parse(text).error().context ==
            "its repetitions written out have more than 2000 characters");
    }
    CHECK(pattern("([0-9]{1,20})").step_in("12") == 12);
    CHECK(pattern("[[:space:]]{100}([0-9]+)").step_in(std::string(100, ' ') + "6") == 6);
}

TEST_CASE("lines are found however the output is divided") {
    const std::string output =
        "step 1\nloss 3\nstep 2\rstep 3\r\nno step\nstep 4 and step 9\nstep 10";
    for (std::size_t size = 1; size <= output.size(); ++size) {
        CAPTURE(size);
        auto lines = reader();
        std::optional<std::uint64_t> last;
        for (std::size_t at = 0; at < output.size(); at += size)
            if (const auto step = lines.append(std::string_view{output}.substr(at, size)))
                last = step;
        CHECK(last == 4);
        CHECK(lines.append("\n") == 10);
    }
}

TEST_CASE("of a line that is too long nothing is read") {
    auto lines = reader();
    CHECK_FALSE(lines.append("step 5" + std::string(16 * 1024, 'x')));
    CHECK_FALSE(lines.append("\n"));
    CHECK(lines.append("step 6\n") == 6);
    CHECK(lines.append(std::string(16 * 1024 - 6, 'x') + "step 7\n") == 7);
}

TEST_CASE("a pattern whose number decreases at first matches something else than steps") {
    auto lines = reader();
    CHECK(lines.append("step 5\nstep 5\n") == 5);
    CHECK_FALSE(lines.append("step 4 of \x1b[1m9\n"));
    CHECK(lines.is_off());
    CHECK(lines.why_off() == "after 5 it matches 4 in the line 'step 4 of ?[1m9'");
    CHECK_FALSE(lines.append("step 6\n"));
}

TEST_CASE("later a number that decreases is a counter that was set back") {
    auto lines = reader();
    for (int step = 1; step <= 10; ++step)
        lines.append("step " + std::to_string(step) + "\n");
    CHECK(lines.append("step 1\n") == 1);
    CHECK_FALSE(lines.is_off());
}

TEST_CASE("a pattern that costs too much is switched off") {
    auto lines = reader();
    lines.add_cost(1s, Instant{1s});
    CHECK_FALSE(lines.is_off());
    SUBCASE("within two seconds") {
        lines.add_cost(1ms, Instant{3s});
        CHECK(lines.is_off());
    }
    SUBCASE("not over a longer time") {
        lines.add_cost(1ms, Instant{30s});
        CHECK_FALSE(lines.is_off());
    }
}
