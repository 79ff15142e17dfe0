// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/rank_masks.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/text.hpp"

#include <cctype>
#include <optional>

namespace ddprun::launcher {
namespace {

/// Digits only: no sign, no blank.
std::optional<int> parse_rank(std::string_view text) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0)
        return std::nullopt;
    return parse_int(text);
}

std::optional<agent::RankRange> parse_range(std::string_view text) {
    agent::RankRange range;
    if (text.starts_with('g')) {
        range.is_global = true;
        text.remove_prefix(1);
    }
    const auto dash = text.find('-');
    const auto first = parse_rank(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_rank(text.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    range.first = *first;
    range.last = *last;
    return range;
}

std::optional<agent::RankMask> parse_mask(std::string_view ranks, std::string_view mask) {
    const auto range = parse_range(ranks);
    if (!range || mask.size() != 1 || mask.front() < '0' || mask.front() > '3') return std::nullopt;
    const int bits = mask.front() - '0';
    return agent::RankMask{*range, (bits & 1) != 0, (bits & 2) != 0};
}

Failure not_accepted(std::string_view text, const char* accepted) {
    return {system_code(EINVAL), "'" + std::string{text} + "': " + accepted};
}

std::string describe(const agent::RankRange& range) {
    std::string text = range.is_global ? "g" : "";
    text += std::to_string(range.first);
    if (range.last != range.first) text += "-" + std::to_string(range.last);
    return text;
}

}  // namespace

Result<std::vector<agent::RankRange>> parse_ranks(std::string_view text) {
    std::vector<agent::RankRange> ranges;
    for (const auto part : split(text, ',')) {
        const auto range = parse_range(trimmed(part));
        if (!range)
            return not_accepted(
                text,
                "accepted are ranks of this node and ranges of them, as in 0,2,4-7, and ranks of "
                "the whole job, as in g8-15");
        ranges.push_back(*range);
    }
    return ranges;
}

Result<std::vector<agent::RankMask>> parse_rank_masks(std::string_view text) {
    std::vector<agent::RankMask> masks;
    if (const auto all = parse_mask("0", text)) {
        masks.push_back({agent::RankRange{}, all->has_out, all->has_err});
        return masks;
    }
    for (const auto part : split(text, ',')) {
        const auto colon = part.find(':');
        const auto mask = colon == std::string_view::npos
                              ? std::nullopt
                              : parse_mask(part.substr(0, colon), part.substr(colon + 1));
        if (!mask)
            return not_accepted(
                text,
                "accepted are 0 (nothing), 1 (stdout), 2 (stderr) and 3 (both), for all ranks or "
                "per rank, as in 0:3,4-7:1; g8-15:1 means ranks of the whole job");
        masks.push_back(*mask);
    }
    return masks;
}

std::string describe(const std::vector<agent::RankMask>& masks) {
    std::string text;
    for (const auto& mask : masks) {
        const auto bits = std::to_string((mask.has_out ? 1 : 0) + (mask.has_err ? 2 : 0));
        if (mask.ranks == agent::RankRange{}) return bits;
        text += (text.empty() ? "" : ",") + describe(mask.ranks) + ":" + bits;
    }
    return text;
}

}  // namespace ddprun::launcher
