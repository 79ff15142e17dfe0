// SPDX-License-Identifier: Apache-2.0
#include "agent/report/error_file.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;

TEST_CASE("an error file of @record gives the message and the call stack") {
    const auto report = parse_error_file(
        R"({"message": {"message": "ValueError: x",
            "extraInfo": {"py_callstack": "Traceback:\n  a\n", "timestamp": "17"}}})");

    REQUIRE(report.has_value());
    CHECK(*report == ErrorReport{"ValueError: x", "Traceback:\n  a\n", false, 17});
}

TEST_CASE("an error file may carry the message as plain text") {
    CHECK(
        parse_error_file(R"({"message": "it broke", "timestamp": 17})") ==
        ErrorReport{"it broke", "", false, 17});
}

TEST_CASE("an error that begins with PeerLost is a secondary failure") {
    const auto report = parse_error_file(
        R"({"message": {"message": "PeerLost: rank 3 is gone", "extraInfo": {}}})");
    const auto plain = parse_error_file(R"({"message": "PeerLost: rank 3 is gone"})");
    const auto own = parse_error_file(R"({"message": "ValueError: after PeerLost"})");

    CHECK(report == ErrorReport{"PeerLost: rank 3 is gone", "", true});
    CHECK(plain == ErrorReport{"PeerLost: rank 3 is gone", "", true});
    CHECK(own == ErrorReport{"ValueError: after PeerLost", "", false});
}

TEST_CASE("a malformed error file is no report and no error") {
    const std::string deep = R"({"message": )" + std::string(100'000, '[');
    for (const std::string& text :
         {std::string{},
          std::string{"{"},
          std::string{"[]"},
          std::string{R"({"message": 3})"},
          std::string{R"({"message": {"message": 3}})"},
          std::string{R"({"message": {"mess)"},
          std::string{"\xff\xfe"},
          deep})
        CHECK_FALSE(parse_error_file(text).has_value());
}

TEST_CASE("an error file cut at any byte is a report or nothing") {
    const std::string whole =
        R"({"message": {"message": "E: \"x\"", "extraInfo": {"py_callstack": "s"}}})";

    for (std::size_t size = 0; size < whole.size(); ++size)
        CHECK_FALSE(parse_error_file(whole.substr(0, size)).has_value());
    CHECK(parse_error_file(whole) == ErrorReport{"E: \"x\"", "s"});
}

TEST_CASE("a timestamp may be a number or text, and one that makes no sense is none") {
    const auto time_of = [](const std::string& stamp) {
        return parse_error_file(R"({"message": "x", "timestamp": )" + stamp + "}")->unix_time;
    };
    CHECK(time_of("17") == 17);
    CHECK(time_of("17.9") == 17);
    CHECK(time_of(R"("17")") == 17);
    CHECK(time_of(R"("17.9")") == 17);
    for (const auto* stamp :
         {"-1", "0", "1e300", R"("")", R"("soon")", R"("17 s")", "null", "[1]", R"("nan")"})
        CHECK_FALSE(time_of(stamp).has_value());
}

TEST_CASE("of a long message the beginning is kept, of a long call stack the end") {
    const std::string line = "  File \\\"a.py\\\", line 1\\n";
    std::string stack;
    while (stack.size() < 100'000)
        stack += line;
    const auto report = parse_error_file(
        R"({"message": {"message": ")" + std::string(5000, 'm') +
        R"(", "extraInfo": {"py_callstack": ")" + stack + R"(the end"}}})");

    REQUIRE(report.has_value());
    CHECK(report->message.size() < 1100);
    CHECK(report->details.size() < 4200);
    CHECK(report->details.starts_with("...\n  File"));
    CHECK(report->details.ends_with("the end"));
}

TEST_CASE("an error file that is too long is none") {
    CHECK_FALSE(parse_error_file(R"({"message": ")" + std::string(2'000'000, 'm') + R"("})"));
}
