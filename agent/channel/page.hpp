// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/rank_save.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

/// A worker's page: FORMAT.md. Pure: the memory may be anywhere.
namespace ddprun::agent::channel {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t page_words = page_bytes / sizeof(std::uint64_t);
inline constexpr std::uint64_t page_magic = 0x314e414843504444;  // "DDPCHAN1"
inline constexpr std::uint32_t page_version = 1;

/// The index of a word.
enum class Word : std::uint8_t {
    magic = 0,
    version_and_size = 1,
    asked = 8,
    step = 9,
    reported_at = 10,
    phase = 11,
    phase_since = 12,
    answer = 13,
    save = 24,
    wait_ends_at = 25,
};

/// Layout of the words `save` and `answer`: the ballot in the highest 8 bits, a state in the next
/// 2, a step in the others.
inline constexpr unsigned ballot_shift = 56;
inline constexpr unsigned state_shift = 54;
inline constexpr std::uint64_t step_mask = (std::uint64_t{1} << state_shift) - 1;

/// A view of a page. The worker writes its words at any time, so the values that are read may be
/// arbitrary.
class Page {
public:
    /// `words`: `page_words` aligned words, which must outlive the view.
    explicit Page(std::uint64_t* words) : words_(words) {}

    /// Writes the words that the agent owns. `wait_ends_at`: when a rank continues without an
    /// agreement, in nanoseconds of CLOCK_BOOTTIME.
    void write_own(
        const std::optional<control::SavePoint>& save, std::uint64_t wait_ends_at = 0) const;
    /// A kept worker begins another round: it has neither done a step nor asked to save in it.
    /// Requires: the worker is held, so it writes nothing now.
    void forget_round() const;
    control::WorkProgress progress() const;
    /// When the worker last wrote its progress, by the time in the page.
    Instant progress_at() const;
    RankSave save_of(int local_rank) const;

private:
    std::uint64_t read(Word word) const;
    void write(Word word, std::uint64_t value) const;

    std::uint64_t* words_;
};

}  // namespace ddprun::agent::channel
