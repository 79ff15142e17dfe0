// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace ddprun {

std::string signal_name(int signal) {
    if (const char* short_name = ::sigabbrev_np(signal)) return std::string{"SIG"} + short_name;
    if (signal >= SIGRTMIN && signal <= SIGRTMAX)
        return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
    return "signal " + std::to_string(signal);
}

std::string seconds_text(Duration length) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.9g s", in_seconds(length));
    return digits.data();
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view last_line(std::string_view text) {
    const auto rest = trimmed(text);
    const auto end = rest.find_last_of("\r\n");
    return end == std::string_view::npos ? rest : trimmed(rest.substr(end + 1));
}

std::string_view beginning_of(std::string_view text, std::size_t most_bytes) {
    if (text.size() <= most_bytes) return text;
    while (most_bytes > 0 && (static_cast<unsigned char>(text[most_bytes]) & 0xC0U) == 0x80U)
        --most_bytes;
    return text.substr(0, most_bytes);
}

std::string shell_word(std::string_view text) {
    constexpr std::string_view plain = "-_./:=,+@%";
    const bool is_plain =
        !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
            return std::isalnum(c) != 0 ||
                   plain.find(static_cast<char>(c)) != std::string_view::npos;
        });
    if (is_plain) return std::string{text};
    std::string quoted = "'";
    for (const char c : text)
        quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
    return quoted + "'";
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const auto end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

}  // namespace ddprun
