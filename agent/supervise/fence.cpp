// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/fence.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>

namespace ddprun::agent {

void Fence::enter_round(const control::Assignment& assignment) {
    neighbours_.enter(assignment.round, assignment.neighbours);
    reported_reach_ = 0;
    probed_at_.reset();
}

void Fence::become(const Nonce& self) {
    neighbours_.become(self);
    reported_reach_ = 0;
}

std::optional<Instant> Fence::valid_until(const Membership& membership) const {
    if (!has_lease_ || !membership) return std::nullopt;
    const auto own_word = membership->valid_until();
    if (!is_judged_early()) return own_word;
    const auto heard_at =
        std::max(membership->acknowledged_at, neighbours_.accepted_at().value_or(Instant{}));
    return std::min(own_word, heard_at + limits::fence_after_silence);
}

bool Fence::is_valid(const Membership& membership, Instant now) const {
    const auto until = valid_until(membership);
    return membership && (!until || now < *until);
}

std::optional<Instant> Fence::ends_at(const Membership& membership) const {
    return is_tripped_ ? std::nullopt : valid_until(membership);
}

std::optional<Instant> Fence::probe_at(const Membership& membership) const {
    if (!is_judged_early() || !membership) return std::nullopt;
    const auto next = std::max(
        membership->acknowledged_at + limits::probe_after, *probed_at_ + limits::probe_interval);
    if (next >= valid_until(membership)) return std::nullopt;
    return next;
}

std::string Fence::silence(const Membership& membership, Instant now) const {
    auto text = "no answer from the rendezvous server for " +
                whole_seconds(now - membership->acknowledged_at);
    if (!is_judged_early() || now >= membership->valid_until()) return text;
    return text + ", and no neighbour answers for this node";
}

bool Fence::change_keeper_fence(std::optional<Instant> ends_at) {
    if (is_tripped_ || ends_at == keeper_fence_) return false;
    keeper_fence_ = ends_at;
    return true;
}

std::vector<Neighbours::Ask> Fence::probe_all(Instant now) {
    probed_at_ = now;
    return neighbours_.ask_all(now);
}

bool Fence::on_answer(int id, const std::optional<PeerAnswer>& answer) {
    neighbours_.on_answer(id, answer);
    return neighbours_.is_round_over();
}

bool Fence::is_judged_early() const {
    return reported_reach_ >= limits::least_reached;
}

}  // namespace ddprun::agent
