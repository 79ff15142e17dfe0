// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/neighbours.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::string_view peer_protocol = "ddprun-vouch/1";
constexpr std::array answer_kinds{
    PeerAnswer::Kind::accepted, PeerAnswer::Kind::refused, PeerAnswer::Kind::elsewhere};

/// Accepts only the form that `encode` writes: no sign except in -1, no leading zero.
std::optional<int> parse_round(std::string_view text, int least) {
    int round = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), round);
    if (ec != std::errc{} || end != text.data() + text.size() || round < least) return std::nullopt;
    if (std::to_string(round) != text) return std::nullopt;
    return round;
}

}  // namespace

std::string encode(const PeerProbe& probe) {
    return std::string{peer_protocol} + ' ' + probe.to.to_string() + ' ' + probe.node.to_string() +
           ' ' + std::to_string(probe.round) + '\n';
}

std::string encode(const PeerAnswer& answer) {
    return std::string{name_of(answer.kind)} + ' ' + std::to_string(answer.round) + '\n';
}

std::optional<std::string_view> peer_line(std::string_view read, std::size_t most_bytes) {
    const auto end = read.find('\n');
    if (end == std::string_view::npos && read.size() < most_bytes) return std::nullopt;
    if (end + 1 != read.size() || read.size() > most_bytes) return std::string_view{};
    return read.substr(0, end);
}

std::optional<PeerProbe> parse_peer_probe(std::string_view line) {
    const auto words = split(line, ' ');
    if (words.size() != 4 || words[0] != peer_protocol) return std::nullopt;
    const auto to = Nonce::parse(words[1]);
    const auto node = Nonce::parse(words[2]);
    const auto round = parse_round(words[3], 0);
    if (!to || !node || !round) return std::nullopt;
    return PeerProbe{*to, *node, *round};
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
        case PeerAnswer::Kind::accepted: return "vouched";
        case PeerAnswer::Kind::refused: return "disowned";
        case PeerAnswer::Kind::elsewhere: return "elsewhere";
    }
    return "?";
}

void Neighbours::enter(int round, std::vector<control::Neighbour> neighbours) {
    become(self_);
    round_ = round;
    neighbours_ = std::move(neighbours);
}

void Neighbours::become(const Nonce& self) {
    // Question numbers are never reused: a late answer must not match a new question.
    const int last_id = last_id_;
    *this = Neighbours(self);
    last_id_ = last_id;
}

std::vector<Neighbours::Ask> Neighbours::ask_all(Instant now) {
    std::vector<Ask> asks;
    for (const auto& each : neighbours_) {
        const int id = ++last_id_;
        open_[id] = {each.nonce, now};
        asks.push_back({id, {each.addr, each.peer_port}, {each.nonce, self_, round_}});
    }
    if (last_of_first_ == 0) last_of_first_ = last_id_;
    return asks;
}

void Neighbours::on_answer(int id, const std::optional<PeerAnswer>& answer) {
    const auto found = open_.extract(id);
    if (found.empty() || !answer) return;
    const auto& question = found.mapped();
    reached_.insert(question.to);
    switch (answer->kind) {
        case PeerAnswer::Kind::accepted:
            accepted_at_ = std::max(accepted_at_.value_or(question.sent_at), question.sent_at);
            return;
        case PeerAnswer::Kind::refused: is_round_over_ |= answer->round > round_; return;
        case PeerAnswer::Kind::elsewhere: return;
    }
}

std::optional<PeerAnswer> Neighbours::answer(
    const PeerProbe& probe, bool has_valid_lease, Instant now) {
    using Kind = PeerAnswer::Kind;
    if (probe.to != self_) return std::nullopt;
    if (probe.round > round_ || !has_valid_lease) return PeerAnswer{Kind::elsewhere, round_};
    if (probe.round < round_ || suspects_.contains(probe.node))
        return PeerAnswer{Kind::refused, round_};
    heard_[probe.node] = now;
    if (heard_.size() > limits::max_probing_nodes) forget_the_oldest();
    return PeerAnswer{Kind::accepted, round_};
}

/// The list is bounded, and other peers may fill it. A full list must not confirm a suspect: a node
/// that is not listed counts as heard at the latest time among the dropped entries.
void Neighbours::forget_the_oldest() {
    const auto oldest =
        std::min_element(heard_.begin(), heard_.end(), [](const auto& a, const auto& b) {
            return a.second < b.second;
        });
    forgotten_at_ = std::max(forgotten_at_.value_or(oldest->second), oldest->second);
    heard_.erase(oldest);
}

std::optional<control::NeighbourHeard> Neighbours::on_asked_about(
    const control::Ask& ask, Instant now) {
    if (ask.round != round_) return std::nullopt;
    const auto found = heard_.find(ask.node);
    const auto heard_at = found != heard_.end() ? std::optional{found->second} : forgotten_at_;
    control::NeighbourHeard said{ask.node, round_};
    if (heard_at) said.heard_ago = now - *heard_at;
    const bool is_heard = said.heard_ago && *said.heard_ago <= limits::probe_window;
    if (ask.must_confirm && !is_heard) suspects_.insert(ask.node);
    said.has_confirmed = suspects_.contains(ask.node);
    return said;
}

}  // namespace ddprun::agent
