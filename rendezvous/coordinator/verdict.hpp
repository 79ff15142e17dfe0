// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/coordinator/progress_record.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Why a round ended, and what follows. Pure. `/status`, the log and the result of the job use the
/// same verdict.
namespace ddprun::coordinator {

/// A worker's failure, or a round's store that a node cannot reach.
struct NodeFailure {
    Instant at;
    control::Cause cause;
    int group_rank;

    /// The worker reports that it ended because of another rank's failure.
    bool is_secondary() const { return cause.worker && cause.worker->is_secondary; }
};

/// The facts about the end of a round. Pointers may be null; nothing is owned.
struct RoundEnd {
    /// The job was interrupted.
    const control::Cause* cancel = nullptr;
    /// Every rank had saved the same step before `cancel`.
    bool is_saved = false;
    /// The first member that was lost or left in this round.
    const control::Cause* departure = nullptr;
    /// The first `leave` since the round began, or since there has been no round.
    const control::Cause* left = nullptr;
    /// At least one member may be in a later round.
    bool has_staying = true;
    std::span<const NodeFailure> failures = {};
    /// The cause that `Stop` named. It decides when nothing above applies: the server ended the
    /// round to admit a late node or by a command, or was restarted while it was stopping the
    /// round.
    const control::Cause* stop_cause = nullptr;

    /// The restart budget allows another failure.
    bool has_restarts_left = false;
    /// Exit codes that end the job even when the budget has restarts left (--no-restart-on).
    std::span<const int> final_codes = {};
    int max_losses = 0;
    /// The steps of this round and earlier ones; null: they do not count.
    const ProgressRecord* progress = nullptr;
    Duration ran_for{};
    /// One more lost node would exceed `max_losses` within an hour.
    bool is_crash_loop = false;
};

struct Verdict {
    enum class Next : std::uint8_t {
        restart,        ///< another round, counted in the restart budget
        another_round,  ///< another round, not counted
        over,           ///< the job ends
    };
    Next next = Next::over;
    control::Cause cause;
    /// Set with `over`.
    control::Outcome outcome = control::Outcome::failed;
    int exit_code = 0;
};

/// The first row that applies decides.
///
/// | Why the round ended                     | Next                                              |
/// |-----------------------------------------|---------------------------------------------------|
/// | 1 the job was cancelled or superseded   | over: cancelled, 128 + signal; 86 when every rank |
/// |                                         | has saved the same step for that                  |
/// | 2 a program cannot be executed          | over: failed, 126 or 127                          |
/// | 3 every node leaves                     | over: cancelled, 128 + the first one's signal     |
/// | 4 a member was lost or left             | another round; lost too often: over, 84           |
/// | 5 a worker failed, or a store cannot be | restart; budget spent or final exit code: over,   |
/// |   reached: the earliest, secondary      | the worker's exit code, 128 + n for a signal, 88  |
/// |   failures last                         | for one that was killed because it hung; too many |
/// |                                         | rounds without progress: over, 87                 |
/// | 6 the cause that `Stop` named           | another round                                     |
///
/// 4 comes before 5: the loss of a node explains failures on other nodes. A peer's error usually
/// arrives before the end of the connection that caused it. Requires: one of them applies.
Verdict judge(const RoundEnd& end);

/// The facts when too few nodes have joined within the time limit.
struct Shortage {
    /// Why the last round ended; null before the first one.
    const control::Cause* last_cause = nullptr;
    bool had_round = false;
    /// "1 of at least 2 nodes".
    std::string ready;
    /// The hosts of these nodes; empty: none.
    std::string hosts;
    Duration waited{};
};

/// The job is over, with exit code 80 before the first round and 82 after one.
Verdict judge(const Shortage& shortage);

}  // namespace ddprun::coordinator
