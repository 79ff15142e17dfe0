// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace ddprun::agent {

/// A rank's state in saves that all ranks agree on: the step it has asked for, and its answer to
/// the save point of a ballot. The worker writes the numbers, so they may be arbitrary.
struct RankSave {
    enum class Answer : std::uint8_t { none, saving, saved, declined };

    int local_rank = 0;
    /// The last step for which it called `should_save`; none: it never did.
    std::optional<std::uint64_t> asked = std::nullopt;
    Answer answer = Answer::none;
    int ballot = 0;
    /// The step at which it saves.
    std::uint64_t step = 0;

    bool operator==(const RankSave&) const = default;
};

}  // namespace ddprun::agent
