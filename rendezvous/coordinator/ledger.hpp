// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace ddprun::coordinator {

/// Counts how the time of a job is spent (docs/goodput.md). At each moment exactly one phase holds,
/// and each event ends the interval before it: the phases sum to the time since the ledger was
/// begun, to the nanosecond. Owned by a job, which feeds it after each event. Pure.
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
/// The lowest step is that of the slowest rank, of those that report steps. Workers without a
/// report may be on their way to their first step, or may never report: that time is undecided
/// until a step arrives (first_step) or the round is over (unmeasured).
class Ledger {
public:
    enum class State : std::uint8_t { down, forming, starting, running, hung, draining, over };

    /// The reported state of one node's workers.
    struct Report {
        /// The step of its slowest rank.
        std::optional<std::uint64_t> step;
        bool is_saving = false;
        /// The highest step of the ranks that save; used because the known steps of other nodes are
        /// older.
        std::optional<std::uint64_t> saving_step = std::nullopt;
        /// The age of this state; `limits::longest_progress_age` at most counts.
        Duration age{};
    };

    explicit Ledger(Instant now) : since_(now) {}

    /// Sets the state from now on, which is often unchanged. `round`: the current or the last one.
    void enter(State state, int round, Instant now);
    void on_report(std::size_t group_rank, const Report& report, Instant now);
    /// Adds the goodput that an earlier server of this job had counted, `age` ago; the time since
    /// then counts as down. Of several reports the longest counts; one above
    /// `limits::longest_restored_goodput` is ignored.
    void restore(const control::Goodput& earlier, Duration age, Instant now);
    /// Steps up to this one were done before the rounds that this ledger has seen.
    void restore_step(std::uint64_t step);

    /// The totals, with undecided time as unmeasured. Each phase is capped at
    /// `limits::longest_phase`.
    control::Goodput totals(Instant now) const;
    /// The totals without undecided time and time that a pending report may change: no part ever
    /// decreases, except by `restore`.
    control::Goodput decided(Instant now) const;
    /// The time that this ledger has counted itself, without restored time.
    Duration own_time(Instant now) const;
    control::GoodputPhase phase() const;
    bool is_closed() const { return state_ == State::over; }
    /// The lowest step of the current round, or of the last round that reported any.
    std::optional<std::uint64_t> step() const;
    /// The last step that was done in the rounds so far, including the current one. If workers set
    /// their counter back, this is the step that they reached last.
    std::optional<std::uint64_t> done_step() const;
    /// How often a node reported a lower step than before within a round.
    std::uint64_t reset_count() const { return reset_count_; }

private:
    /// The number of nodes at each step.
    using Counts = std::map<std::uint64_t, std::size_t>;
    struct Node {
        Report report;
        /// The step at which its save began; none: it does not save, or has set its counter back
        /// since.
        std::optional<std::uint64_t> save_began_at;
    };
    /// The steps of the current round.
    struct Steps {
        std::map<std::size_t, Node> of_node;
        Counts counts;
        /// The number of nodes that save, by the step at which their saves began.
        Counts saves;
        /// A node has set its step counter back after the lowest step had become a new one.
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
    /// Time that belongs to no phase yet.
    Duration undecided_{};
    control::Goodput earlier_;
    Duration earlier_gap_{};
    Steps steps_;
    std::optional<std::uint64_t> done_;
    /// A step of some round is known.
    bool is_measured_ = false;
    std::uint64_t reset_count_ = 0;
};

}  // namespace ddprun::coordinator
