// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/number.hpp"

#include "rendezvous/base/text.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <string>

namespace ddprun::launcher {
namespace {

template <class T>
std::optional<T> parse_number(std::string_view text) {
    text = trimmed(text);
    if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
    T number{};
    const auto* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return number;
}

}  // namespace

std::optional<int> parse_int(std::string_view text) {
    return parse_number<int>(text);
}

std::optional<Duration> parse_duration(std::string_view text) {
    struct Unit {
        std::string_view ending;
        double seconds;
    };
    // "ms" comes before "s", since it also ends with "s".
    constexpr std::array<Unit, 5> units{
        {{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3'600}, {"d", 86'400}}};
    text = trimmed(text);
    double factor = 1;
    for (const auto& unit : units) {
        if (!text.ends_with(unit.ending)) continue;
        factor = unit.seconds;
        text.remove_suffix(unit.ending.size());
        break;
    }
    constexpr double ten_years = 10.0 * 365 * 24 * 3600;
    const auto number = parse_number<double>(text);
    // Negated comparisons, so that NaN, for which every comparison is false, is refused too.
    if (!number || !(*number >= 0 && *number * factor <= ten_years)) return std::nullopt;
    return from_seconds(*number * factor);
}

std::string describe_seconds(Duration length) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", in_seconds(length));
    return text.data();
}

}  // namespace ddprun::launcher
