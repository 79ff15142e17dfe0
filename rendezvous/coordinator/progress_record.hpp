// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddprun::coordinator {

/// Counts failed rounds in a row without a new step. A step is new if a rank has done it and no
/// rank of an earlier round had. Too many of them end the job (--stop-without-progress).
///
/// | A round ended                   | and it had       | the count      |
/// |---------------------------------|------------------|----------------|
/// | for any reason                  | a new step       | is 0           |
/// | because a worker failed         | no new step      | is one more    |
/// | for another reason: a lost node | no new step      | stays          |
///
/// A job is ended only when nothing shows progress. So the fastest rank counts, and a rank whose
/// step went back within the round, as at the end of an epoch, counts as having done new steps. As
/// long as no round has reported a step, rounds are compared by their failures. A short round that
/// failed like the round before adds one; any other short round sets the count to one; a longer
/// round sets it to 0. Owned by a job. Pure.
class ProgressRecord {
public:
    /// Without a limit no job is ended, and nothing is recorded. Requires: limit > 1.
    explicit ProgressRecord(std::optional<int> limit) : limit_(limit) {}

    /// Handles a report of one node of the current round: the progress of its ranks now, and as
    /// reported before.
    void on_progress(
        std::span<const control::RankProgress> before, std::span<const control::RankProgress> now);
    /// Earlier rounds, under another server, have done this step. The number of failed rounds is
    /// unknown.
    void restore_step(std::uint64_t step);

    /// Whether this end of the current round reaches the limit.
    bool is_last(Duration ran_for, const control::Cause& cause) const {
        return limit_ && count_after(ran_for, cause) >= *limit_;
    }
    void end_round(Duration ran_for, const control::Cause& cause);

    int count() const { return count_; }
    const std::optional<int>& limit() const { return limit_; }

private:
    struct Steps {
        std::optional<std::uint64_t> highest;
        bool has_gone_back = false;
    };

    int count_after(Duration ran_for, const control::Cause& cause) const;
    bool has_new_step() const;

    std::optional<int> limit_;
    int count_ = 0;
    Steps round_;
    std::optional<std::uint64_t> highest_of_earlier_;
    std::string last_failure_;
};

}  // namespace ddprun::coordinator
