// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::agent {

/// The processes of a node that have imported what the script will import, one for each local rank,
/// and wait for a place in a round (--warm).
///
///   absent    --due, no other imports-->   importing     Start
///   importing --Ready-->                   parked        all are: NoteParked
///   importing --Unfit-->                   disqualified  Kill; absent ones, too: NoteOff
///   importing --time is over-->            importing     Kill
///   importing, parked --Ended-->           absent        the third time: as after Unfit
///   parked    --TakeRequested-->           taken         HandOver
///   taken     --HandOverFailed, TakeRequested-->  absent Kill
///   taken     --HandedOver-->              absent
///
/// They are due a few seconds after a round's first step, or, if no steps are known, some time
/// after its start. They import one after the other, to leave the processors to the training.
class Parked {
public:
    enum class State : std::uint8_t { absent, importing, parked, taken, disqualified };

    // ---- events ----

    /// All workers of a round have started.
    struct WorkersStarted {};
    struct StepSeen {};
    struct RoundEnded {};
    struct Ready {
        int local_rank;
        /// The memory that the process shares with no other.
        std::uint64_t bytes;
    };
    /// An import depends on the rank, or has failed: no worker of the node can be parked.
    struct Unfit {
        int local_rank;
        std::string reason;
    };
    /// `reason` is empty if the process was not even started because a round was stopped.
    struct Ended {
        int local_rank;
        std::string reason;
    };
    struct TakeRequested {
        int local_rank;
    };
    /// The taken process has got its place.
    struct HandedOver {
        int local_rank;
    };
    /// Another process was started in its place, or none.
    struct HandOverFailed {
        int local_rank;
    };
    struct DeadlinePassed {};
    using Event = std::variant<
        WorkersStarted,
        StepSeen,
        RoundEnded,
        Ready,
        Unfit,
        Ended,
        TakeRequested,
        HandedOver,
        HandOverFailed,
        DeadlinePassed>;

    // ---- effects ----

    struct Start {
        int local_rank;
        bool operator==(const Start&) const = default;
    };
    struct Kill {
        int local_rank;
        bool operator==(const Kill&) const = default;
    };
    struct HandOver {
        int local_rank;
        bool operator==(const HandOver&) const = default;
    };
    struct NoteParked {
        int count;
        std::uint64_t bytes;
        bool operator==(const NoteParked&) const = default;
    };
    /// No further process is started.
    struct NoteOff {
        std::string reason;
        bool operator==(const NoteOff&) const = default;
    };
    using Effect = std::variant<Start, Kill, HandOver, NoteParked, NoteOff>;

    explicit Parked(int count) : slots_(static_cast<std::size_t>(count)) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    State state(int local_rank) const { return slot(local_rank).state; }

private:
    using Effects = std::vector<Effect>;
    struct Slot {
        State state = State::absent;
        std::uint64_t bytes = 0;
    };

    void on_ready(const Ready& ready, Effects& out);
    void on_ended(const Ended& ended, Instant now, Effects& out);
    void on_deadline(Instant now, Effects& out);
    void turn_off(std::string reason, Effects& out);
    void start_next(Instant now, Effects& out);
    std::size_t count(State state) const;
    State free_state() const { return is_off_ ? State::disqualified : State::absent; }
    Slot& slot(int local_rank) { return slots_.at(static_cast<std::size_t>(local_rank)); }
    const Slot& slot(int local_rank) const {
        return slots_.at(static_cast<std::size_t>(local_rank));
    }

    std::vector<Slot> slots_;
    /// When the next process may be started; none: no round runs.
    std::optional<Instant> start_at_;
    /// The time limit of the importing process, until it is killed.
    std::optional<Instant> import_ends_at_;
    int failure_count_ = 0;
    /// Warm starts are off: processes that were taken are still settled, and parked ones can be
    /// used once.
    bool is_off_ = false;
};

std::string describe(const Parked::Event& event);
std::string describe(const Parked::Effect& effect);

}  // namespace ddprun::agent
