// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/causes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::coordinator {

/// The rounds of a job: when each began and ended, how its time was spent, and its root cause.
/// Moments are totals of the job's ledger, and their sum is the time since the job began. The
/// newest `max_rounds` are kept, older ones are folded into counts. Pure.
class Timeline {
public:
    static constexpr std::size_t max_rounds = 1'000;
    static constexpr std::size_t max_text_bytes = 300;

    struct End {
        /// None: all workers succeeded.
        std::optional<control::Cause::Kind> kind;
        std::string root_cause;
        bool operator==(const End&) const = default;
    };
    struct Round {
        int number = 0;
        control::Goodput begin;
        /// In the order in which they were first reached, each once.
        std::vector<control::GoodputPhase> phases;
        /// How often the phase changed.
        std::uint64_t changes = 0;
        struct Ended {
            End what;
            control::Goodput totals;
            bool operator==(const Ended&) const = default;
        };
        std::optional<Ended> end;

        /// How the time between begin and end was spent.
        control::Goodput spent() const;
        bool operator==(const Round&) const = default;
    };
    /// The rounds that are not kept.
    struct Older {
        std::uint64_t count = 0;
        std::map<control::Cause::Kind, std::uint64_t> by_cause;
        control::Goodput spent;
    };

    /// This round has begun and not ended.
    bool is_in(int number) const;
    /// A round that has not ended ends without a cause.
    void begin_round(int number, const control::Goodput& totals);
    /// The phase of the current round, often unchanged; ignored outside of a round.
    void reach(control::GoodputPhase phase);
    /// Ignored outside of a round. A long text is cut.
    void end_round(End end, const control::Goodput& totals);

    const std::deque<Round>& rounds() const { return rounds_; }
    const Older& older() const { return older_; }

private:
    void fold_oldest();

    std::deque<Round> rounds_;
    Older older_;
    std::optional<control::GoodputPhase> phase_;
};

/// In the header, since the pages of the server are built without the coordinator.
inline control::Goodput Timeline::Round::spent() const {
    control::Goodput spent;
    if (!end) return spent;
    // Time that was undecided at the begin may have moved to another phase.
    for (std::size_t i = 0; i < spent.spent.size(); ++i)
        spent.spent.at(i) = std::max(Duration{}, end->totals.spent.at(i) - begin.spent.at(i));
    return spent;
}

}  // namespace ddprun::coordinator
