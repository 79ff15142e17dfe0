// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace ddprun {
namespace {

bool is_same_letter(char a, char b) {
    return a == b || ((a == '-' || a == '_') && (b == '-' || b == '_'));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        auto diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const auto replaced = diagonal + (is_same_letter(a[i], b[j]) ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}

/// The first candidate with the longest common prefix, if that prefix is most of what was typed.
/// The edit distance does not find such pairs: "last_call" is far from "last_call_timeout".
std::optional<std::string_view> alike_at_the_beginning(
    std::string_view typed, std::span<const std::string_view> candidates) {
    constexpr std::size_t shortest = 4;
    std::optional<std::string_view> best;
    auto best_length = std::max(shortest, (2 * typed.size() + 2) / 3) - 1;
    for (const auto candidate : candidates) {
        const auto ends = std::mismatch(
            typed.begin(), typed.end(), candidate.begin(), candidate.end(), is_same_letter);
        const auto length = static_cast<std::size_t>(ends.first - typed.begin());
        if (length <= best_length) continue;
        best = candidate;
        best_length = length;
    }
    return best;
}

}  // namespace

std::optional<std::string_view> nearest(
    std::string_view typed, std::span<const std::string_view> candidates) {
    std::optional<std::string_view> best;
    auto best_distance = typed.size() / 3 + 1;
    for (const auto candidate : candidates) {
        const auto distance = edit_distance(typed, candidate);
        if (distance >= best_distance) continue;
        best = candidate;
        best_distance = distance;
    }
    return best ? best : alike_at_the_beginning(typed, candidates);
}

}  // namespace ddprun
