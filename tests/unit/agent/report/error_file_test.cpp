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
    CHECK(*report == ErrorReport{"ValueError: x", "Traceback:\n  a\n"});
}

TEST_CASE("an error file may carry the message as plain text") {
    CHECK(
        parse_error_file(R"({"message": "it broke", "timestamp": 17})") ==
        ErrorReport{"it broke", ""});
}

TEST_CASE("an error that begins with PeerLost is another worker's fault") {
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
