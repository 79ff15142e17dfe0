// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/neighbours.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::agent;

namespace {

const Nonce self = *Nonce::parse("00000000000000000000000000000001");
const Nonce other = *Nonce::parse("00000000000000000000000000000002");

/// The protocol's name in the lines.
const std::string protocol = "ddprun-vouch/1";
const std::string accepted = "vouched";
const std::string refused = "disowned";

std::string without_end(const std::string& line) {
    REQUIRE(line.size() <= max_peer_line_bytes);
    REQUIRE(line.back() == '\n');
    return line.substr(0, line.size() - 1);
}

}  // namespace

TEST_CASE("a question and its answers are the lines of the page") {
    CHECK(
        encode(PeerProbe{other, self, 7}) ==
        protocol + " 00000000000000000000000000000002 00000000000000000000000000000001 7\n");
    CHECK(encode(PeerAnswer{PeerAnswer::Kind::accepted, 7}) == accepted + " 7\n");
    CHECK(encode(PeerAnswer{PeerAnswer::Kind::refused, 8}) == refused + " 8\n");
    CHECK(encode(PeerAnswer{PeerAnswer::Kind::elsewhere, -1}) == "elsewhere -1\n");
}

TEST_CASE("what was written is read again, the largest numbers too") {
    for (const int round : {0, 7, 2'147'483'647}) {
        const PeerProbe probe{other, self, round};
        CHECK(parse_peer_probe(without_end(encode(probe))) == probe);
        for (const auto kind :
             {PeerAnswer::Kind::accepted, PeerAnswer::Kind::refused, PeerAnswer::Kind::elsewhere}) {
            const PeerAnswer answer{kind, round};
            CHECK(parse_peer_answer(without_end(encode(answer))) == answer);
        }
    }
    const PeerAnswer nowhere{PeerAnswer::Kind::elsewhere, -1};
    CHECK(parse_peer_answer(without_end(encode(nowhere))) == nowhere);
}

TEST_CASE("a line is whole at its line feed, and none if it is too long or something follows") {
    CHECK(peer_line("") == std::nullopt);
    CHECK(peer_line(accepted + " 7") == std::nullopt);
    CHECK(peer_line(accepted + " 7\n") == accepted + " 7");
    CHECK(peer_line("\n") == "");
    CHECK(peer_line(accepted + " 7\nv") == "");
    const std::string longest(max_peer_line_bytes - 1, 'x');
    CHECK(peer_line(longest) == std::nullopt);
    CHECK(peer_line(longest + '\n') == longest);
    CHECK(peer_line(longest + 'x') == "");
}

TEST_CASE("anything else is nothing, a byte more or less included") {
    const auto probe = without_end(encode(PeerProbe{other, self, 7}));
    const auto answer = without_end(encode(PeerAnswer{PeerAnswer::Kind::accepted, 7}));
    for (const auto* odd : {"", " ", "GET / HTTP/1.1", "DDPRUN/1"})
        CHECK_FALSE(parse_peer_answer(odd));
    CHECK_FALSE(parse_peer_answer(std::string{"VOUCHED"} + " 7"));
    for (const auto* rest : {"", " ", " x", " -2", " 07", " +7", " 2147483648", "  7", " 7 "})
        CHECK_FALSE(parse_peer_answer(accepted + rest));
    for (std::size_t size = 0; size < probe.size(); ++size)
        CHECK_FALSE(parse_peer_probe(probe.substr(0, size)));
    for (const std::string& odd : {probe + " ", probe + "x", " " + probe, answer, "x" + probe})
        CHECK_FALSE(parse_peer_probe(odd));
    auto upper = probe;
    upper[20] = 'A';
    CHECK_FALSE(parse_peer_probe(upper));
}
