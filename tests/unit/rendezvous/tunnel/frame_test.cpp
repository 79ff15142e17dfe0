// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tunnel/frame.hpp"

#include "rendezvous/tunnel/error.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace ddprun;
using namespace ddprun::tunnel;

namespace {

std::string bytes_of(const Frame& frame) {
    std::string bytes;
    encode(frame, bytes);
    return bytes;
}

std::string header(char kind, std::string_view length) {
    return std::string("\0\0\0\x07", 4) + kind + std::string{length};
}

}  // namespace

TEST_CASE("a frame of the tunnel is nine bytes and its payload") {
    using namespace std::string_view_literals;
    CHECK(bytes_of({7, Kind::open, {}, 0xABCD}) == "\0\0\0\7\1\0\0\0\2\xAB\xCD"sv);
    CHECK(bytes_of({7, Kind::data, "abc"}) == "\0\0\0\7\2\0\0\0\3abc"sv);
    CHECK(bytes_of({0x01020304, Kind::credit, {}, 5}) == "\1\2\3\4\3\0\0\0\4\0\0\0\5"sv);
    CHECK(bytes_of({7, Kind::end}) == "\0\0\0\7\4\0\0\0\0"sv);
    CHECK(bytes_of({7, Kind::reset}) == "\0\0\0\7\5\0\0\0\0"sv);
}

TEST_CASE("every frame of the tunnel is decoded as what was encoded, and not before it is whole") {
    const std::string most(max_payload_bytes, 'x');
    const std::vector<Frame> frames{
        {1, Kind::open, {}, 65'535},
        {0xFFFFFFFF, Kind::data, "x"},
        {2, Kind::data, most},
        {3, Kind::credit, {}, 1},
        {3, Kind::credit, {}, 0xFFFFFFFF},
        {4, Kind::end},
        {5, Kind::reset}};
    for (const auto& frame : frames) {
        const auto bytes = bytes_of(frame);
        CHECK(bytes.size() == frame.encoded_bytes());
        for (std::size_t size = 0; size < bytes.size(); size += size < 32 ? 1 : 9'999)
            CHECK_FALSE(decode(std::string_view{bytes}.substr(0, size)).value().has_value());
        CHECK(decode(bytes + "more").value() == frame);
    }
}

TEST_CASE("a frame that no end of a tunnel sends is an error, seen in its header") {
    using namespace std::string_view_literals;
    struct Case {
        std::string bytes;
        Error error;
    };
    const std::vector<Case> cases{
        {header(0, "\0\0\0\0"sv), Error::unknown_kind},
        {header(6, "\0\0\0\0"sv), Error::unknown_kind},
        {header('\xFF', "\0\0\0\0"sv), Error::unknown_kind},
        {header(1, "\0\0\0\1"sv), Error::wrong_length},
        {header(1, "\0\0\0\3"sv), Error::wrong_length},
        {header(2, "\0\0\0\0"sv), Error::wrong_length},
        {header(2, "\0\1\0\1"sv), Error::wrong_length},
        {header(2, "\xFF\xFF\xFF\xFF"sv), Error::wrong_length},
        {header(3, "\0\0\0\0"sv), Error::wrong_length},
        {header(3, "\0\0\0\4"sv) + std::string(4, '\0'), Error::wrong_length},
        {header(4, "\0\0\0\1"sv), Error::wrong_length},
        {header(5, "\0\0\0\1"sv), Error::wrong_length}};
    for (const auto& [bytes, error] : cases) {
        const auto decoded = decode(bytes);
        REQUIRE_FALSE(decoded.has_value());
        CHECK(decoded.error().code == error);
    }
}
