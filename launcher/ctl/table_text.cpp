// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/table_text.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher::ctl {
namespace widths {
namespace {

struct Range {
    char32_t first;
    char32_t last;
    std::size_t width;
};

/// Widths of characters that occur in names; all others take one column.
constexpr std::array ranges{
    Range{0x0300, 0x036F, 0},    // combining marks
    Range{0x1100, 0x115F, 2},    // Hangul
    Range{0x200B, 0x200D, 0},    // joiners
    Range{0x2E80, 0xA4CF, 2},    // ideographs, kana
    Range{0xAC00, 0xD7A3, 2},    // Hangul
    Range{0xF900, 0xFAFF, 2},    // ideographs
    Range{0xFE00, 0xFE0F, 0},    // variants
    Range{0xFE30, 0xFE6F, 2},    // wide forms
    Range{0xFF00, 0xFF60, 2},    // wide forms
    Range{0xFFE0, 0xFFE6, 2},    // wide forms
    Range{0x1F300, 0x1FAFF, 2},  // pictures
    Range{0x20000, 0x3FFFD, 2},  // ideographs
};

std::size_t width_of_character(char32_t character) {
    const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const Range& range) {
        return character >= range.first && character <= range.last;
    });
    return found == ranges.end() ? 1 : found->width;
}

/// The length of the character that begins with this byte; 1 for a byte that begins none.
std::size_t length_from(unsigned char first) {
    if (first >= 0xF0 && first < 0xF8) return 4;
    if (first >= 0xE0 && first < 0xF0) return 3;
    return first >= 0xC0 && first < 0xE0 ? 2 : 1;
}

}  // namespace
}  // namespace widths

std::size_t width_of(std::string_view text) {
    std::size_t width = 0;
    while (!text.empty()) {
        const auto first = static_cast<unsigned char>(text.front());
        const auto length = std::min(widths::length_from(first), text.size());
        // The bits of the first byte after its length mark.
        char32_t character = length == 1 ? first : first & (0x7FU >> length);
        for (const char c : text.substr(1, length - 1))
            character = (character << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
        width += widths::width_of_character(character);
        text.remove_prefix(length);
    }
    return width;
}

std::string table_text(const std::vector<Row>& rows) {
    std::vector<std::size_t> columns;
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (i == columns.size()) columns.push_back(0);
            columns[i] = std::max(columns[i], width_of(row[i]));
        }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += row[i];
            line.append(columns[i] - width_of(row[i]) + 2, ' ');
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

}  // namespace ddprun::launcher::ctl
