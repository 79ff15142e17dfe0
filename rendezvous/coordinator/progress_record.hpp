// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddprun::coordinator {

/// Failed rounds in a row without a new step: one that some rank has done and no rank of an earlier
/// round had. Too many of them end the job (--stop-without-progress).
///
/// | A round ended                   | and it had       | the count      |
/// |---------------------------------|------------------|----------------|
/// | for any reason                  | a new step       | is 0           |
/// | because a worker failed         | no new step      | is one more    |
/// | for another reason: a lost node | no new step      | stays          |
///
/// A job is ended only when nothing shows progress: the fastest rank counts, and a rank whose step
/// went back within the round, as at the end of an epoch, has done new ones. As long as no
/// round has reported a step, nothing is known but how they failed: a short one that failed as the
/// one before is one more, another short one begins the count, and a longer one ends it. Owned by
/// a job. Pure.
class ProgressRecord {
public:
    /// Without a limit no job is ended, and nothing is recorded. Requires: limit > 1.
    explicit ProgressRecord(std::optional<int> limit) : limit_(limit) {}

    /// What the ranks of one node of the current round have reported, and what they had before.
    void on_progress(
        std::span<const control::RankProgress> before, std::span<const control::RankProgress> now);
    /// Earlier rounds, under another server, have done this step. How many failed is not known.
    void restore_step(std::uint64_t step);

    /// With this end of the current round the limit is reached.
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
