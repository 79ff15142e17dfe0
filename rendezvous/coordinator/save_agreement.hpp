// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ddprun::coordinator {

/// Agrees on a step that all ranks of one round save. No rank may have passed that step when it is
/// agreed. So a step above the highest known one is proposed, and a rank that reaches it waits.
/// Once the proposal is visible to all its ranks, each node reports the highest step for which one
/// of them had asked by then.
///
///   proposed  --a rank was there already,
///               or declined-->                 proposed  the next ballot, a higher step
///   proposed  --every node: all its ranks
///               are below-->                   agreed    the same ballot
///   agreed    --a rank had not waited
///               (declined)-->                  proposed  the next ballot, a higher step
///   agreed    --every rank has saved, or
///               ended before-->                saved
///   any       --no ballot is left, ranks save
///               different steps, or end
///               without a save-->              failed
///
/// Ballots only grow within a round, even when the server is restarted: `known` is the highest that
/// a member has. A report of another ballot has no effect.
class SaveAgreement {
public:
    enum class State : std::uint8_t { proposed, agreed, saved, failed };

    struct Node {
        int nproc = 1;
        int rank_base = 0;
        /// The report about the current ballot.
        std::optional<control::SaveReport> report = std::nullopt;
        /// Its ranks have ended successfully, and it is no longer a member.
        bool is_gone = false;
    };

    /// `nodes`: the nodes of the round, by group rank. `asked`: the highest step that a rank is
    /// known to have asked for.
    SaveAgreement(
        std::map<std::size_t, Node> nodes,
        std::optional<std::uint64_t> asked,
        const std::optional<control::SavePoint>& known,
        Instant now);

    /// Returns true when `point()` or `state()` has changed.
    bool on_report(std::size_t group_rank, const control::SaveReport& report, Instant now);

    /// The ranks of a node have ended, and no further report of it will arrive. Returns true when
    /// `point()` or `state()` has changed.
    bool on_gone(std::size_t group_rank, Instant now);

    State state() const { return state_; }
    /// The save point to send to the members of the round.
    const control::SavePoint& point() const { return point_; }
    /// The time since which the ranks may save.
    Instant agreed_at() const { return agreed_at_; }
    /// The saved step: the first one at or after the agreed step. Requires: State::saved.
    std::uint64_t saved_step() const { return saved_step_; }
    int saved_count() const;
    int rank_count() const;

    /// The first rank for which the save waits: it has neither saved nor ended.
    struct Missing {
        std::size_t group_rank = 0;
        int local_rank = 0;
        int rank = 0;
        bool has_asked = false;
        /// Its node has not answered, so nothing is known of its ranks.
        bool is_unheard = false;
    };
    std::optional<Missing> missing() const;
    /// The first rank that has never asked.
    std::optional<Missing> silent() const;
    /// Why the agreement failed. Requires: State::failed.
    const std::string& failure() const { return failure_; }

private:
    bool evaluate(Instant now);
    void propose(Instant now);
    void fail(std::string why);
    bool has_all_reports() const;
    /// The nodes' reports, added up.
    control::SaveReport sum() const;

    std::map<std::size_t, Node> nodes_;
    State state_ = State::proposed;
    control::SavePoint point_;
    /// The highest step that a rank has asked for.
    std::optional<std::uint64_t> asked_;
    /// How many ranks had ended when the step was agreed; no other rank may end without a save.
    int ended_before_ = 0;
    int attempt_ = 0;
    Instant agreed_at_{};
    std::uint64_t saved_step_ = 0;
    std::string failure_;
};

}  // namespace ddprun::coordinator
