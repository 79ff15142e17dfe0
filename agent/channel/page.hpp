// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <cstdint>

/// A worker's page: FORMAT.md. Pure: wherever its memory is.
namespace ddprun::agent::channel {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t page_words = page_bytes / sizeof(std::uint64_t);
inline constexpr std::uint64_t page_magic = 0x314e414843504444;  // "DDPCHAN1"
inline constexpr std::uint32_t page_version = 1;

/// Index of a word.
enum class Word : std::uint8_t {
    magic = 0,
    version_and_size = 1,
    step = 9,
    reported_at = 10,
    phase = 11,
    phase_since = 12,
};

/// A view of one. The worker writes its words at any time: what is read of them may be anything.
class Page {
public:
    /// `words`: page_words of them, aligned, for as long as the view is used.
    explicit Page(std::uint64_t* words) : words_(words) {}

    /// The words that are the agent's.
    void write_own() const;
    control::WorkProgress progress() const;

private:
    std::uint64_t read(Word word) const;
    void write(Word word, std::uint64_t value) const;

    std::uint64_t* words_;
};

}  // namespace ddprun::agent::channel
