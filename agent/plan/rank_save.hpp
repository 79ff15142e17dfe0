// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace ddprun::agent {

/// What a rank shows of saves that all ranks agree on: which step it has asked for, and what it has
/// done about the save point of a ballot. A worker writes it: any numbers may be in it.
struct RankSave {
    enum class Answer : std::uint8_t { none, saving, saved, declined };

    int local_rank = 0;
    /// The last step of its `should_save`; none: it never called.
    std::optional<std::uint64_t> asked = std::nullopt;
    Answer answer = Answer::none;
    int ballot = 0;
    /// At which it saves.
    std::uint64_t step = 0;

    bool operator==(const RankSave&) const = default;
};

}  // namespace ddprun::agent
