// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/output/progress_pattern.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// Finds steps in the standard output of rank 0 (--progress-regex), and measures the processor time
/// of the search. The shell of one ProgressReader per round.
class StepFinder {
public:
    /// `pattern`: empty, or a pattern that the launcher has accepted.
    StepFinder(
        const std::string& pattern,
        std::function<Instant()> now,
        std::function<void(std::uint64_t)> on_step);

    void begin_round();
    void read(std::string_view bytes);

private:
    std::optional<ProgressPattern> pattern_;
    std::function<Instant()> now_;
    std::function<void(std::uint64_t)> on_step_;
    std::optional<ProgressReader> reader_;
};

}  // namespace ddprun::agent
