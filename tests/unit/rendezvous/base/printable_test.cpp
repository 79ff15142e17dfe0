// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/printable.hpp"

#include "rendezvous/base/json_text.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/redacted.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace ddprun;
using namespace std::string_view_literals;

namespace {

/// One of each kind: ESC, NUL, DEL, U+009B, U+202E, U+2066, U+2028, U+061C.
constexpr auto hostile =
    "a\x1b[2Jb\0c\x7f"
    "d\xc2\x9b"
    "e\xe2\x80\xae"
    "f\xe2\x81\xa6"
    "g\xe2\x80\xa8"
    "h\xd8\x9ci"sv;

bool is_clean(std::string_view text) {
    while (!text.empty()) {
        if (unprintable_bytes(text) > 0) return false;
        text.remove_prefix(1);
    }
    return true;
}

}  // namespace

TEST_CASE("printable text moves no cursor and changes no direction, and stays as it is otherwise") {
    CHECK(printable(hostile) == "a?[2Jb?c?d?e?f?g?h?i");
    const auto ordinary = "tab\t, line\n, \xc3\xa9, \xe2\x82\xac, \xe6\x97\xa5, \xf0\x9f\x98\x80"sv;
    CHECK(printable(ordinary) == ordinary);
    // An incomplete character at the end is not one of them.
    CHECK(printable("\xc2"sv) == "\xc2");
    CHECK(printable("\xe2\x80"sv) == "\xe2\x80");
    CHECK(printable("").empty());
    CHECK(printable_line("a\tb\nc\x1B") == "a b c?");
}

TEST_CASE("log lines are printable, as text and as JSON, and lose nothing") {
    const auto line = log::describe({"name", std::string{hostile}});
    CHECK(is_clean(line));
    CHECK(line.find("d\\xc2\\x9be\\xe2\\x80\\xae") != std::string::npos);

    std::string json;
    append_json_string(json, hostile);
    CHECK(is_clean(json));
    CHECK(json.find("\\u007fd\\u009be\\u202ef\\u2066g\\u2028h\\u061ci") != std::string::npos);
}

TEST_CASE("one field of a log line is cut where it is too long, between two characters") {
    std::string text;
    for (int i = 0; i < 3'000; ++i)
        text += "\xc3\xa9";
    const auto line = log::describe({"x", "." + text});
    CHECK(line.size() < 4'200);
    CHECK(line.ends_with("\xc3\xa9...\""));
}

TEST_CASE("what looks like a secret is not shown") {
    CHECK(
        redacted("KeyError: password=hunter2 (attempt 3)") ==
        "KeyError: password=[redacted] (attempt 3)");
    CHECK(redacted("HF_TOKEN: 'abc', n=4") == "HF_TOKEN: '[redacted]', n=4");
    CHECK(
        redacted(R"({"api_key": "xyz", "rank": 1})") == R"({"api_key": "[redacted]", "rank": 1})");
    CHECK(redacted("Authorization: Bearer abc.def") == "Authorization: [redacted]");
    CHECK(
        redacted("GET https://me:pass@host/x?token=1&n=2") ==
        "GET https://me:[redacted]@host/x?token=[redacted]&n=2");
    CHECK(redacted("cannot use hf_abcdefghijklmnopqrstuvwx here") == "cannot use [redacted] here");
    CHECK(redacted("AKIAIOSFODNN7EXAMPLE") == "[redacted]");
}

TEST_CASE("what is no secret stays") {
    for (const auto text :
         {"rank 2 on b: exited with code 7"sv,
          "ValueError: expected 512 tokens: got 4"sv,
          "KeyError: 'token'"sv,
          "token 5: unexpected end"sv,
          "connect to http://10.0.0.1:8080/a: refused"sv,
          "password="sv,
          "secret"sv,
          "sk-1 and hf_x"sv,
          ""sv})
        CHECK(redacted(text) == text);
}
