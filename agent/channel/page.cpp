// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/page.hpp"

#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

namespace ddprun::agent::channel {
namespace {

constexpr std::uint64_t version_and_size = (std::uint64_t{page_bytes} << 32U) | page_version;

/// An invalid number counts as no phase.
control::WorkPhase phase_of(std::uint64_t number) {
    if (number > std::numeric_limits<std::uint8_t>::max()) return control::WorkPhase::none;
    const auto phase = static_cast<control::WorkPhase>(number);
    return control::name_of(phase).empty() ? control::WorkPhase::none : phase;
}

std::uint64_t state_number(control::SaveState state) {
    using control::SaveState;
    switch (state) {
        case SaveState::proposed: return 1;
        case SaveState::cancelled: return 3;
        case SaveState::agreed:
        case SaveState::saved:
        case SaveState::ending: break;
    }
    return 2;
}

std::uint64_t word_of(const std::optional<control::SavePoint>& save) {
    if (!save) return 0;
    return static_cast<std::uint64_t>(save->ballot) << ballot_shift |
           state_number(save->state) << state_shift | (save->step & step_mask);
}

}  // namespace

void Page::write_own(
    const std::optional<control::SavePoint>& save, std::uint64_t wait_ends_at) const {
    write(Word::magic, page_magic);
    write(Word::version_and_size, version_and_size);
    // Written first, so that a rank that reads the save point also finds its end.
    write(Word::wait_ends_at, wait_ends_at);
    write(Word::save, word_of(save));
}

void Page::forget_round() const {
    write(Word::reported_at, 0);
    write(Word::asked, 0);
    write(Word::answer, 0);
}

RankSave Page::save_of(int local_rank) const {
    RankSave save;
    save.local_rank = local_rank;
    // The step plus one; 0: never asked.
    if (const auto asked = read(Word::asked); asked > 0 && asked <= step_mask)
        save.asked = asked - 1;
    const auto answer = read(Word::answer);
    save.answer = static_cast<RankSave::Answer>(answer >> state_shift & 3U);
    if (save.answer == RankSave::Answer::none) return save;
    save.ballot = static_cast<int>(answer >> ballot_shift);
    save.step = answer & step_mask;
    return save;
}

control::WorkProgress Page::progress() const {
    control::WorkProgress progress;
    // The worker writes the time last.
    if (read(Word::reported_at) != 0) progress.step = read(Word::step);
    progress.phase = phase_of(read(Word::phase));
    return progress;
}

Instant Page::progress_at() const {
    const auto last = std::max(read(Word::reported_at), read(Word::phase_since));
    constexpr std::uint64_t longest = std::numeric_limits<std::int64_t>::max();
    return from_nanoseconds_since_boot(static_cast<std::int64_t>(std::min(last, longest)));
}

std::uint64_t Page::read(Word word) const {
    return std::atomic_ref{words_[static_cast<std::size_t>(word)]}.load(std::memory_order_acquire);
}

void Page::write(Word word, std::uint64_t value) const {
    std::atomic_ref{words_[static_cast<std::size_t>(word)]}.store(value, std::memory_order_release);
}

}  // namespace ddprun::agent::channel
