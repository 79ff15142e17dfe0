// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace transformer {

/// A text as character numbers, divided into windows for training.
class Corpus {
public:
    /// Throws std::invalid_argument for a text that is shorter than a window.
    Corpus(const std::string& text, std::size_t context);

    /// The number of different bytes in the text.
    std::size_t vocabulary() const { return characters_.size(); }
    /// Windows do not overlap; a shorter rest at the end is not used.
    std::size_t window_count() const { return (tokens_.size() - 1) / context_; }
    /// `context` tokens and the token after them: context + 1 in all.
    const std::uint8_t* window(std::size_t index) const { return tokens_.data() + index * context_; }

    /// Throws std::invalid_argument for a character that is not in the text.
    std::vector<std::uint8_t> tokens_of(const std::string& text) const;
    std::string text_of(const std::vector<std::uint8_t>& tokens) const;

private:
    std::size_t context_;
    std::string characters_;
    std::vector<std::uint8_t> tokens_;
};

/// Sentences such as "seven plus five is twelve. ", in an order determined by the seed: a model
/// that completes them has learnt to spell and to add.
std::string sums_in_words(std::size_t characters, std::uint64_t seed);

/// Throws std::invalid_argument, with the path, when it cannot be read.
std::string text_in(const std::string& path);

}  // namespace transformer
