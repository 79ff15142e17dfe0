// SPDX-License-Identifier: Apache-2.0
#include "agent/report/printable.hpp"

#include "rendezvous/base/text.hpp"

namespace ddprun::agent {
namespace {

/// One less than 80, since some terminals wrap a line that fills the screen.
constexpr std::size_t last_column = 79;

/// The number of columns of a word; each UTF-8 character counts as one.
std::size_t columns(std::string_view word) {
    std::size_t count = 0;
    for (const char c : word)
        if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) ++count;
    return count;
}

}  // namespace

std::string shortened(std::string_view text, std::size_t most_bytes) {
    if (text.size() <= most_bytes) return std::string{text};
    return std::string{beginning_of(text, most_bytes)} + " ...";
}

std::string wrapped(std::string_view text, std::size_t indent) {
    const std::string margin(indent, ' ');
    std::string result;
    std::size_t column = indent;
    bool is_at_start = true;
    while (!text.empty()) {
        const auto end = text.find_first_of(" \n");
        const auto word = text.substr(0, end);
        const auto width = columns(word);
        const bool is_too_long = !is_at_start && column + 1 + width > last_column;
        if (is_too_long) {
            result += '\n' + margin;
            column = indent;
        } else if (!is_at_start) {
            result += ' ';
            ++column;
        }
        result += word;
        column += width;
        is_at_start = false;
        if (end == std::string_view::npos) break;
        if (text[end] == '\n') {
            result += '\n' + margin;
            column = indent;
            is_at_start = true;
        }
        text.remove_prefix(end + 1);
    }
    while (result.ends_with(' ') || result.ends_with('\n'))
        result.pop_back();
    return result;
}

}  // namespace ddprun::agent
