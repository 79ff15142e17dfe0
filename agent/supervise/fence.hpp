// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/neighbours.hpp"
#include "agent/supervise/server_link.hpp"
#include "rendezvous/base/time.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// Computes how long this node's ranks are its own, from the answers of the server and of the
/// round's neighbours, and when to probe the neighbours. The rule and its times: docs/fence.md.
///
/// A plain value: `Agent` decides whether there are workers to kill, and kills them. `Membership`:
/// none before the server has granted one.
class Fence {
public:
    using Membership = std::optional<ServerLink::Membership>;

    Fence(bool has_lease, const Nonce& self) : has_lease_(has_lease), neighbours_(self) {}

    void enter_round(const control::Assignment& assignment);
    /// This node leaves its round and has a new nonce.
    void become(const Nonce& self);

    // ---- time ----

    /// Whether the server judges silent nodes at all.
    bool has_lease() const { return has_lease_; }
    /// Until this time the server counts this node as a member, even if messages were lost: the
    /// server judges always later. None: there is no membership, or the server never judges.
    std::optional<Instant> valid_until(const Membership& membership) const;
    bool is_valid(const Membership& membership, Instant now) const;
    /// When the workers are to be killed. None: never, or they are being killed already.
    std::optional<Instant> ends_at(const Membership& membership) const;
    /// When to probe next, if the server stays silent. None: an answer would not move the fence.
    std::optional<Instant> probe_at(const Membership& membership) const;
    /// The text that says why the fence ended.
    std::string silence(const Membership& membership, Instant now) const;

    /// Marks that the workers are being killed because of the fence, until `clear`.
    void trip() { is_tripped_ = true; }
    void clear() { is_tripped_ = false; }
    bool is_tripped() const { return is_tripped_; }

    /// Records the keeper's fence; true: it has changed. It changes no more between `trip` and
    /// `clear`.
    bool change_keeper_fence(std::optional<Instant> ends_at);

    // ---- neighbours ----

    std::vector<Neighbours::Ask> probe_all(Instant now);
    /// True: the answer shows that the round is over.
    bool on_answer(int id, const std::optional<PeerAnswer>& answer);
    bool is_reach_known() const { return neighbours_.is_reach_known(); }
    /// Records that the number of reachable neighbours has been reported. From then on the server
    /// may judge by the neighbours' answers, and this node uses the early fence.
    void report_reach() { reported_reach_ = neighbours_.reached_count(); }
    int reported_reach() const { return reported_reach_; }
    /// The server queries the neighbours, and judges after a few seconds, not after a lease.
    bool is_judged_early() const;
    Neighbours& neighbours() { return neighbours_; }

private:
    bool has_lease_;
    Neighbours neighbours_;
    int reported_reach_ = 0;
    std::optional<Instant> probed_at_;
    bool is_tripped_ = false;
    std::optional<Instant> keeper_fence_;
};

}  // namespace ddprun::agent
