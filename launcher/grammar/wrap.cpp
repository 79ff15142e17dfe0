// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/wrap.hpp"

#include "launcher/grammar/rank_masks.hpp"
#include "rendezvous/base/text.hpp"

#include <optional>

namespace ddprun::launcher {
namespace {

/// None when a quote is not closed, or when a backslash is the last character.
std::optional<std::vector<std::string>> split_words(std::string_view text) {
    std::vector<std::string> words;
    bool is_in_word = false;
    char quote = '\0';
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        const bool is_blank = c == ' ' || c == '\t' || c == '\n';
        if (quote == '\0' && is_blank) {
            is_in_word = false;
            continue;
        }
        if (!is_in_word) words.emplace_back();
        is_in_word = true;
        if (c == '\\' && quote != '\'') {
            if (++at == text.size()) return std::nullopt;
            words.back() += text[at];
        } else if (c == quote) {
            quote = '\0';
        } else if (quote == '\0' && (c == '\'' || c == '"')) {
            quote = c;
        } else {
            words.back() += c;
        }
    }
    if (quote != '\0') return std::nullopt;
    return words;
}

}  // namespace

Result<Wrap> parse_wrap(std::string_view text) {
    const auto refused = [&](const std::string& accepted) {
        return Failure{system_code(EINVAL), "'" + std::string{text} + "': " + accepted};
    };
    const std::string form = "accepted is 'RANKS: COMMAND', as in 'all: strace -f' or '0,2-3: gdb'";
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return refused(form);
    Wrap wrap;
    const auto ranks = trimmed(text.substr(0, colon));
    if (ranks == "all") {
        wrap.ranks.emplace_back();
    } else {
        auto parsed = parse_ranks(ranks);
        if (!parsed) return parsed.error();
        wrap.ranks = std::move(*parsed);
    }
    auto words = split_words(text.substr(colon + 1));
    if (!words) return refused("a quote is not closed");
    if (words->empty() || words->front().empty()) return refused(form);
    wrap.words = std::move(*words);
    return wrap;
}

}  // namespace ddprun::launcher
