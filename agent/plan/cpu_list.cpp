// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/cpu_list.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace ddprun::agent {
namespace {

std::optional<int> parse_cpu_number(std::string_view text) {
    int number = 0;
    const auto* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    if (number < 0 || number > limits::max_cpu_number) return std::nullopt;
    return number;
}

}  // namespace

std::optional<CpuList> parse_cpu_list(std::string_view text) {
    CpuList list;
    text = trimmed(text, " \t\n");
    if (text.empty()) return list;
    for (const auto part : split(text, ',')) {
        const auto dash = part.find('-');
        const auto first = parse_cpu_number(part.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : parse_cpu_number(part.substr(dash + 1));
        if (!first || !last || *last < *first) return std::nullopt;
        // Ascending and apart, so a hostile text cannot name the same numbers again and again.
        if (!list.empty() && *first <= list.back()) return std::nullopt;
        for (int number = *first; number <= *last; ++number)
            list.push_back(number);
    }
    return list;
}

std::string describe(const CpuList& list) {
    std::string text;
    for (auto first = list.begin(); first != list.end();) {
        auto last = first;
        while (std::next(last) != list.end() && *std::next(last) == *last + 1)
            ++last;
        if (!text.empty()) text += ',';
        text += std::to_string(*first);
        if (last != first) text += '-' + std::to_string(*last);
        first = std::next(last);
    }
    return text;
}

bool contains(const CpuList& list, int number) {
    return std::binary_search(list.begin(), list.end(), number);
}

CpuList common(const CpuList& left, const CpuList& right) {
    CpuList both;
    std::set_intersection(
        left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
    return both;
}

}  // namespace ddprun::agent
