// SPDX-License-Identifier: Apache-2.0
#include "launcher/number.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <string>

namespace ddprun::launcher {
namespace {

template <class T>
std::optional<T> parse_number(std::string_view text) {
    text = without_blanks(text);
    if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
    T number{};
    const auto* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return number;
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<int> parse_int(std::string_view text) {
    return parse_number<int>(text);
}

std::optional<Duration> parse_seconds(std::string_view text) {
    constexpr double ten_years = 10.0 * 365 * 24 * 3600;
    const auto seconds = parse_number<double>(text);
    // Written so that NaN, which compares false with everything, is refused too.
    if (!seconds || !(*seconds >= 0 && *seconds <= ten_years)) return std::nullopt;
    return from_seconds(*seconds);
}

std::string describe_seconds(Duration length) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", in_seconds(length));
    return text.data();
}

}  // namespace ddprun::launcher
