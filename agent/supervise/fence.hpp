// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/neighbours.hpp"
#include "agent/supervise/server_link.hpp"
#include "rendezvous/base/time.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// Until when this node's ranks are its own, by what the server and the neighbours of the round
/// have answered; and when to probe the neighbours. The rule and its times: docs/fence.md.
///
/// A plain value: whether there are workers to kill is for `Agent`, which kills them. `Membership`
/// is what the server has granted; none: nothing yet.
class Fence {
public:
    using Membership = std::optional<ServerLink::Membership>;

    Fence(bool has_lease, const Nonce& self) : has_lease_(has_lease), neighbours_(self) {}

    void enter_round(const control::Assignment& assignment);
    /// In no round any more, and with another nonce.
    void become(const Nonce& self);

    // ---- time ----

    /// Whether the server judges silent nodes at all.
    bool has_lease() const { return has_lease_; }
    /// Until then the server counts this node as a member, whatever did not reach it: always
    /// earlier than its own judgement. None: it never judges.
    std::optional<Instant> valid_until(const Membership& membership) const;
    bool is_valid(const Membership& membership, Instant now) const;
    /// When the workers are to be killed. None: never, or they are being killed for it.
    std::optional<Instant> ends_at(const Membership& membership) const;
    /// When to probe next: while the server is silent, and as long as an answer can still help.
    std::optional<Instant> probe_at(const Membership& membership) const;
    /// Why it ended.
    std::string silence(const Membership& membership, Instant now) const;

    /// The workers are being killed because of it, until `clear`.
    void trip() { is_tripped_ = true; }
    void clear() { is_tripped_ = false; }
    bool is_tripped() const { return is_tripped_; }

    /// Sets the fence as the keeper has it; true: it was another one. Past the fence it stays as it
    /// is.
    bool change_keeper_fence(std::optional<Instant> ends_at);

    // ---- neighbours ----

    std::vector<Neighbours::Ask> probe_all(Instant now);
    /// True: the answer says that the round is over.
    bool on_answer(int id, const std::optional<PeerAnswer>& answer);
    bool is_reach_known() const { return neighbours_.is_reach_known(); }
    /// How many neighbours are in reach is reported to the server: from here on it may judge by
    /// their answers, and this node's own fence is the early one.
    void report_reach() { reported_reach_ = neighbours_.reached_count(); }
    int reported_reach() const { return reported_reach_; }
    /// The server asks the neighbours, and judges after a few seconds instead of a lease.
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
