// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/neighbours.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::agent {

void Neighbours::enter(int round, std::vector<control::Neighbour> neighbours) {
    become(self_);
    round_ = round;
    neighbours_ = std::move(neighbours);
}

void Neighbours::become(const Nonce& self) {
    // Numbers of questions are never used again: an old answer must match none.
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
        case PeerAnswer::Kind::vouched:
            vouched_at_ = std::max(vouched_at_.value_or(question.sent_at), question.sent_at);
            return;
        case PeerAnswer::Kind::disowned: is_round_over_ |= answer->round > round_; return;
        case PeerAnswer::Kind::elsewhere: return;
    }
}

std::optional<PeerAnswer> Neighbours::answer(
    const PeerVouch& vouch, bool has_standing, Instant now) {
    using Kind = PeerAnswer::Kind;
    if (vouch.to != self_) return std::nullopt;
    if (vouch.round > round_ || !has_standing) return PeerAnswer{Kind::elsewhere, round_};
    if (vouch.round < round_ || disowned_.contains(vouch.node))
        return PeerAnswer{Kind::disowned, round_};
    heard_[vouch.node] = now;
    if (heard_.size() > limits::max_probing_nodes) forget_the_oldest();
    return PeerAnswer{Kind::vouched, round_};
}

/// Other peers may fill the list, but no suspect is confirmed for it: a node that is not in it any
/// more counts as heard when the last one was dropped.
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
    if (ask.must_confirm && !is_heard) disowned_.insert(ask.node);
    said.has_confirmed = disowned_.contains(ask.node);
    return said;
}

}  // namespace ddprun::agent
