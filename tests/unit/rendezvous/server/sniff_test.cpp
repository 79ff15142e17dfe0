// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/sniff.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::server {
namespace {

using namespace std::string_view_literals;

struct Row {
    std::string_view bytes;
    Caller caller;
};

const std::vector<Row> known_callers = {
    {"\x00\xCE\xF7\x85\x3C"sv, Caller::c10d},
    {"\x00\xCE\xF7\x85\x3C\x0D\x01\x02\x03\x04"sv, Caller::c10d},
    {"DDPRUN/1\n"sv, Caller::control},
    {"DDPRUN/"sv, Caller::control},
    {"ddprun-vote/1 {}\n"sv, Caller::control},
    {"ddprun-v"sv, Caller::control},
    {"GET /status HTTP/1.1\r\n"sv, Caller::http},
    {"HEAD / HTTP/1.1\r\n"sv, Caller::http},
    {"POST /status HTTP/1.1\r\n"sv, Caller::http},
    {"DELETE / HTTP/1.1\r\n"sv, Caller::http},
    {"\x00\x3C\x85\xF7\xCE"sv, Caller::big_endian_c10d},
    {"\x16\x03\x01\x02\x00"sv, Caller::tls},
    // A 2.1 worker's first request: ADD init/ 1.
    {"\x03\x05\x00\x00\x00\x00\x00\x00\x00init/\x01\x00\x00\x00\x00\x00\x00\x00"sv,
     Caller::older_c10d},
    {"\x00\x05\x00\x00\x00\x00\x00\x00\x00init/"sv, Caller::older_c10d},
    {"\x0B\x00\x00\x00\x00\x00\x00\x00\x00"sv, Caller::older_c10d},
    {"\x0C\x00\x00\x00\x00\x00\x00\x00\x00"sv, Caller::unknown},
    {"\x03garbage!"sv, Caller::unknown},
    {"\n\n\n\n\n\n\n\n\n"sv, Caller::unknown},
    {"SSH-2.0-OpenSSH_9.2\r\n"sv, Caller::unknown},
    {"GETS"sv, Caller::unknown},
    {"DDPRUX"sv, Caller::unknown},
    {"hello"sv, Caller::unknown},
    {"\xFF"sv, Caller::unknown},
};

TEST_CASE("the first bytes show the caller's protocol") {
    for (const auto& [first_bytes, caller] : known_callers) {
        const auto bytes = first_bytes;  // clang 14 lets no lambda name a structured binding
        CAPTURE(bytes);
        CHECK(sniff(bytes) == caller);
    }
}

TEST_CASE("where PyTorch 2.1 is accepted it is a store client, and all others are what they were") {
    const auto accepting = [](std::string_view bytes) {
        return sniff(bytes, wire::Accepted::legacy_too);
    };
    for (const auto& [first_bytes, caller] : known_callers) {
        const auto bytes = first_bytes;  // clang 14 lets no lambda name a structured binding
        CAPTURE(bytes);
        CHECK(accepting(bytes) == (caller == Caller::older_c10d ? Caller::c10d : caller));
    }
    // GETNUMKEYS and CANCEL_WAIT are whole, and their client waits for the answer.
    for (const auto whole : {"\x06"sv, "\x0B"sv}) {
        CHECK(accepting(whole) == Caller::c10d);
        CHECK(sniff(whole) == Caller::need_more);
    }
    // Bytes after them belong to another request, however they are split.
    CHECK(accepting("\x06\x03\x05\x00\x00\x00\x00\x00\x00\x00init/"sv) == Caller::c10d);
    for (const auto beginning : {""sv, "\x00"sv, "\x00\xCE"sv, "\x03\x05"sv, "\x16"sv})
        CHECK(accepting(beginning) == Caller::need_more);
}

TEST_CASE("bytes that fit more than one caller need more") {
    const std::vector<std::string_view> beginnings = {
        ""sv,
        "\x00"sv,
        "\x00\xCE"sv,
        "\x00\xCE\xF7\x85"sv,
        "\x00\x3C\x85\xF7"sv,
        "D"sv,
        "DDPRUN"sv,
        "DEL"sv,
        "G"sv,
        "GET"sv,
        "HEAD"sv,
        "P"sv,
        "\x16"sv,
        "\x03\x05\x00\x00\x00\x00\x00\x00"sv};
    for (const auto bytes : beginnings) {
        CAPTURE(bytes);
        CHECK(sniff(bytes) == Caller::need_more);
    }
}

TEST_CASE("a caller that arrives byte by byte is recognised as the same") {
    for (const auto& [first_bytes, caller] : known_callers) {
        const auto bytes = first_bytes;  // clang 14 lets no lambda name a structured binding
        CAPTURE(bytes);
        std::size_t length = 0;
        while (length < bytes.size() && sniff(bytes.substr(0, length)) == Caller::need_more)
            ++length;
        CHECK(sniff(bytes.substr(0, length)) == caller);
    }
}

TEST_CASE("nine bytes always decide") {
    for (int first = 0; first < 256; ++first) {
        for (const char rest : {'\0', 'T', '\xFF'}) {
            const auto bytes = std::string(1, static_cast<char>(first)) + std::string(8, rest);
            CAPTURE(first);
            CHECK(sniff(bytes) != Caller::need_more);
        }
    }
}

TEST_CASE("the preamble names a version and its own length") {
    CHECK(*read_preamble("DDPRUN/1\n") == Preamble{1, 9});
    CHECK(*read_preamble("DDPRUN/12\n\0\0\0\1"sv) == Preamble{12, 10});
}

TEST_CASE("half a preamble is nothing yet") {
    const std::string_view whole = "DDPRUN/1\n";
    for (std::size_t length = 0; length < whole.size(); ++length)
        CHECK(*read_preamble(whole.substr(0, length)) == std::nullopt);
}

TEST_CASE("what cannot become a preamble is an error") {
    for (const auto bytes :
         {"DDPRUX"sv,
          "DDPRUN/\n"sv,
          "DDPRUN/one\n"sv,
          "DDPRUN/1 \n"sv,
          "DDPRUN/-1\n"sv,
          "DDPRUN/99999999999999\n"sv,
          "D\n"sv}) {
        CAPTURE(bytes);
        CHECK(read_preamble(bytes).has_error());
    }
    CHECK(read_preamble("DDPRUN/" + std::string(limits::max_preamble_bytes, '1')).has_error());
}

}  // namespace
}  // namespace ddprun::server
