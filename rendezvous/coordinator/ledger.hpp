// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace ddprun::coordinator {

/// What the time of a job goes into (docs/goodput.md). At each moment exactly one phase holds, and
/// each event ends the interval before it: the phases sum to the time since the ledger was begun,
/// to the nanosecond. Owned by a job, which feeds it after each event. Pure.
///
///   state         phase
///   down          down
///   forming       forming
///   starting      starting
///   running       saving       a rank says so, and the lowest step has not passed the one at which
///                              it began
///                 first_step   no rank has reported a step in this round
///                 redone       the lowest step is one that an earlier round had done
///                 productive   else; unmeasured while no rank of any round has reported a step
///   hung          hung
///   draining      draining
///   over          none: the ledger is closed
///
/// The lowest step is that of the slowest rank, of those that report steps. Workers that have not
/// reported any may be on their way to their first step or report none: that time is undecided
/// until a step comes (first_step) or the round is over (unmeasured).
class Ledger {
public:
    enum class State : std::uint8_t { down, forming, starting, running, hung, draining, over };

    /// What the workers of one node say.
    struct Report {
        /// Of its slowest rank.
        std::optional<std::uint64_t> step;
        bool is_saving = false;
        /// The highest of the ranks that save: the values that are known of other nodes are older.
        std::optional<std::uint64_t> saving_step = std::nullopt;
        /// How long ago it became so; `limits::longest_progress_age` at most counts.
        Duration age{};
    };

    explicit Ledger(Instant now) : since_(now) {}

    /// What is so from now on; mostly it was so before. `round`: the current or the last one.
    void enter(State state, int round, Instant now);
    void on_report(std::size_t group_rank, const Report& report, Instant now);
    /// What an earlier server of this job had counted, `age` ago: the time since is down. Of
    /// several the longest counts; one above `limits::longest_restored_goodput` does not.
    void restore(const control::Goodput& earlier, Duration age, Instant now);
    /// Steps up to this one were done before the rounds that this ledger has seen.
    void restore_step(std::uint64_t step);

    /// Undecided time counts as unmeasured. Of a phase `limits::longest_phase` at most.
    control::Goodput totals(Instant now) const;
    /// The same without the time that is undecided, or that a report on its way may change: no part
    /// of it ever decreases, but by `restore`.
    control::Goodput decided(Instant now) const;
    /// Without what was restored.
    Duration own_time(Instant now) const;
    control::GoodputPhase phase() const;
    bool is_closed() const { return state_ == State::over; }
    /// The lowest of the current round, or of the last that has reported any.
    std::optional<std::uint64_t> step() const;
    /// The last that all rounds so far have done. Where workers set their counter back it is where
    /// they were last.
    std::optional<std::uint64_t> done_step() const;
    /// How often a node's step was lower than before within a round.
    std::uint64_t reset_count() const { return reset_count_; }

private:
    /// How many nodes are at each step.
    using Counts = std::map<std::uint64_t, std::size_t>;
    struct Node {
        Report report;
        /// Where its save began; none: it does not save, or has set its counter back since.
        std::optional<std::uint64_t> save_began_at;
    };
    /// Of the current round.
    struct Steps {
        std::map<std::size_t, Node> of_node;
        Counts counts;
        /// By where the saves began.
        Counts saves;
        /// A node has set its counter back after the lowest step was a new one.
        bool is_set_back = false;

        std::optional<std::uint64_t> lowest() const;
        bool is_saving() const;
    };

    control::Goodput closed() const;
    void close_interval(Instant at);
    void decide(control::GoodputPhase phase);
    void begin_round(int round);
    bool does_new_steps() const;
    void follow_save(Node& node, const Report& report, bool is_set_back);
    static void move_count(
        Counts& counts,
        const std::optional<std::uint64_t>& from,
        const std::optional<std::uint64_t>& to);

    State state_ = State::forming;
    int round_ = -1;
    Instant since_;
    control::Goodput spent_;
    /// Part of no phase yet.
    Duration undecided_{};
    control::Goodput earlier_;
    Duration earlier_gap_{};
    Steps steps_;
    std::optional<std::uint64_t> done_;
    /// A step is known of some round.
    bool is_measured_ = false;
    std::uint64_t reset_count_ = 0;
};

}  // namespace ddprun::coordinator
