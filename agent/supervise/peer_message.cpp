// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/peer_message.hpp"

#include "rendezvous/base/text.hpp"

#include <array>
#include <charconv>

namespace ddprun::agent {
namespace {

constexpr std::string_view peer_protocol = "ddprun-vouch/1";
constexpr std::array answer_kinds{
    PeerAnswer::Kind::vouched, PeerAnswer::Kind::disowned, PeerAnswer::Kind::elsewhere};

/// As it is written: no sign but the one of -1, no leading zero.
std::optional<int> parse_round(std::string_view text, int least) {
    int round = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), round);
    if (ec != std::errc{} || end != text.data() + text.size() || round < least) return std::nullopt;
    if (std::to_string(round) != text) return std::nullopt;
    return round;
}

}  // namespace

std::string encode(const PeerVouch& vouch) {
    return std::string{peer_protocol} + ' ' + vouch.to.to_string() + ' ' + vouch.node.to_string() +
           ' ' + std::to_string(vouch.round) + '\n';
}

std::string encode(const PeerAnswer& answer) {
    return std::string{name_of(answer.kind)} + ' ' + std::to_string(answer.round) + '\n';
}

std::optional<std::string_view> peer_line(std::string_view read) {
    const auto end = read.find('\n');
    if (end == std::string_view::npos && read.size() < max_peer_line_bytes) return std::nullopt;
    if (end + 1 != read.size() || read.size() > max_peer_line_bytes) return std::string_view{};
    return read.substr(0, end);
}

std::optional<PeerVouch> parse_peer_vouch(std::string_view line) {
    const auto words = split(line, ' ');
    if (words.size() != 4 || words[0] != peer_protocol) return std::nullopt;
    const auto to = Nonce::parse(words[1]);
    const auto node = Nonce::parse(words[2]);
    const auto round = parse_round(words[3], 0);
    if (!to || !node || !round) return std::nullopt;
    return PeerVouch{*to, *node, *round};
}

std::optional<PeerAnswer> parse_peer_answer(std::string_view line) {
    const auto words = split(line, ' ');
    if (words.size() != 2) return std::nullopt;
    const auto round = parse_round(words[1], -1);
    if (!round) return std::nullopt;
    for (const auto kind : answer_kinds)
        if (words[0] == name_of(kind)) return PeerAnswer{kind, *round};
    return std::nullopt;
}

std::string_view name_of(PeerAnswer::Kind kind) {
    switch (kind) {
        case PeerAnswer::Kind::vouched: return "vouched";
        case PeerAnswer::Kind::disowned: return "disowned";
        case PeerAnswer::Kind::elsewhere: return "elsewhere";
    }
    return "?";
}

}  // namespace ddprun::agent
