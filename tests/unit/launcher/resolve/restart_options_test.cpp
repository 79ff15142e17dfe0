// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/restart_options.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

Options given(const std::string& name, const std::string& text) {
    Options options;
    options.given[name] = {text, "--" + name};
    return options;
}

RestartChoice choice(const std::string& name, const std::string& text) {
    const auto result = restart_choice(given(name, text));
    CAPTURE(name + "=" + text);
    REQUIRE(result.has_value());
    return *result;
}

bool is_refused(const std::string& name, const std::string& text) {
    const auto result = restart_choice(given(name, text));
    return !result &&
           result.error().context.starts_with("--" + name + ": '" + text + "': accepted");
}

}  // namespace

TEST_CASE("nothing said means no pause, no refill, and no restart on usage and exec errors") {
    const auto nothing = restart_choice({});
    REQUIRE(nothing.has_value());
    CHECK(to_policy(*nothing) == control::RestartPolicy{0s, 0s, 0s, {2, 126, 127}, {}});
    CHECK(nothing->delay.origin == "default");
}

TEST_CASE("a restart delay is one length or two, in seconds or with a unit") {
    const auto delay = [](const std::string& text) {
        return describe(choice("restart-delay", text).delay.value);
    };
    CHECK(delay("5") == "5 s");
    CHECK(delay("0") == "none");
    CHECK(delay("0.5:60") == "0.5 to 60 s");
    CHECK(delay("5s:5m") == "5 to 300 s");
    CHECK(delay("1m:1h") == "60 to 3600 s");
    CHECK(delay("1d") == "86400 s");
    for (const auto* text :
         {"", "x", "-1", "5:", ":5", "5:1", "0:5", "1:2:3", "5 x", "5sm", "99999d"})
        CHECK(is_refused("restart-delay", text));
}

TEST_CASE("a refill is one length; 0 is never") {
    CHECK(choice("restart-refill", "1h").refill.value == 1h);
    CHECK(choice("restart-refill", "90").refill.value == 90s);
    CHECK(choice("restart-refill", "0").refill.value == 0s);
    for (const auto* text : {"", "soon", "-5", "1:2"})
        CHECK(is_refused("restart-refill", text));
}

TEST_CASE("exit codes are a list whose order means nothing") {
    const auto codes = [](const std::string& text) {
        return describe_codes(choice("no-restart-on", text).final_codes.value);
    };
    CHECK(codes("2,126,127") == "2,126,127");
    CHECK(codes("137, 3,3") == "3,137");
    CHECK(codes("none") == "none");
    for (const auto* text : {"", "0", "256", "2,", ",2", "2;3", "x"})
        CHECK(is_refused("no-restart-on", text));
    std::string many;
    for (int code = 1; code <= 65; ++code)
        many += (code == 1 ? "" : ",") + std::to_string(code);
    CHECK(is_refused("no-restart-on", many));
}

TEST_CASE("rounds without progress are a number from 2 up; without the option none end the job") {
    const auto count = choice("stop-without-progress", "3").rounds_without_progress;
    CHECK(count.value == 3);
    CHECK(count.origin == "--stop-without-progress");
    for (const auto* text : {"", "0", "1", "-1", "x", "1.5", "1000001", "3 rounds"})
        CHECK(is_refused("stop-without-progress", text));
}
