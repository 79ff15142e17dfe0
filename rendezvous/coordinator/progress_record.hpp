// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::coordinator {

/// Rounds in a row that ended because a worker failed, and had no new step: one above all that
/// earlier rounds had done. Too many of them end the job (--stop-without-progress). Rounds that
/// ended for another reason, as by a lost node, are not added.
///
/// As long as no round has reported a step, a round counts instead when it was short and failed as
/// the one before: nothing else is known of it. Pure.
class ProgressRecord {
public:
    struct Round {
        /// The lowest step of its ranks; none: no rank has reported any.
        std::optional<std::uint64_t> step;
        Duration ran_for{};
        control::Cause cause;
    };

    /// Without a limit no job is ended.
    explicit ProgressRecord(std::optional<int> limit) : limit_(limit) {}

    /// With this round the limit is reached.
    bool is_last(const Round& round) const { return limit_ && count_with(round) >= *limit_; }
    void add(const Round& round);
    /// Earlier rounds, under another server, have done this step. How many failed is not known.
    void restore_step(std::uint64_t step);

    int count() const { return count_; }
    const std::optional<int>& limit() const { return limit_; }

private:
    int count_with(const Round& round) const;

    std::optional<int> limit_;
    int count_ = 0;
    std::optional<std::uint64_t> highest_step_;
    std::string last_failure_;
};

}  // namespace ddprun::coordinator
