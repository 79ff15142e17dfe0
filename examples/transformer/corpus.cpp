// SPDX-License-Identifier: Apache-2.0
#include "corpus.hpp"

#include <array>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <stdexcept>

namespace transformer {
namespace {

std::string in_words(std::size_t number) {
    static const std::array<const char*, 20> small{
        "zero",   "one",    "two",       "three",    "four",     "five",    "six",
        "seven",  "eight",  "nine",      "ten",      "eleven",   "twelve",  "thirteen",
        "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
    return small.at(number);
}

}  // namespace

Corpus::Corpus(const std::string& text, std::size_t context) : context_(context) {
    if (text.size() < context + 1)
        throw std::invalid_argument(
            "the text has " + std::to_string(text.size()) + " characters, and one window needs " +
            std::to_string(context + 1));
    const std::set<char> sorted(text.begin(), text.end());
    characters_.assign(sorted.begin(), sorted.end());
    tokens_ = tokens_of(text);
}

std::vector<std::uint8_t> Corpus::tokens_of(const std::string& text) const {
    std::vector<std::uint8_t> tokens;
    tokens.reserve(text.size());
    for (const char character : text) {
        const auto place = characters_.find(character);
        if (place == std::string::npos)
            throw std::invalid_argument(
                std::string{"the character '"} + character + "' does not occur in the text");
        tokens.push_back(static_cast<std::uint8_t>(place));
    }
    return tokens;
}

std::string Corpus::text_of(const std::vector<std::uint8_t>& tokens) const {
    std::string text;
    for (const auto token : tokens)
        text += characters_.at(token);
    return text;
}

std::string sums_in_words(std::size_t characters, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string text;
    while (text.size() < characters) {
        const auto first = random() % 10, second = random() % 10;
        text += in_words(first) + " plus " + in_words(second) + " is " + in_words(first + second) +
                ". ";
    }
    text.resize(characters);
    return text;
}

std::string text_in(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) throw std::invalid_argument(path + " cannot be read");
    return text;
}

}  // namespace transformer
