// SPDX-License-Identifier: Apache-2.0
#include "agent/report/goodput_text.hpp"

#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;
using control::GoodputPhase;

std::string padded(std::int64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
}

/// "8.4 s", "13m05s", "2h13m".
std::string length_text(Duration length) {
    if (length < 1min) {
        std::array<char, 32> digits{};
        std::snprintf(digits.data(), digits.size(), "%.1f s", in_seconds(length));
        return digits.data();
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(length).count();
    constexpr int sixty = 60;
    const auto minutes = seconds / sixty;
    if (minutes < sixty) return std::to_string(minutes) + 'm' + padded(seconds % sixty) + 's';
    return std::to_string(minutes / sixty) + 'h' + padded(minutes % sixty) + 'm';
}

/// In tenths of a percent.
std::int64_t share_of(Duration part, Duration whole) {
    constexpr double all = 1000;
    return std::llround(all * in_seconds(part) / in_seconds(whole));
}

}  // namespace

bool is_measured(const control::Goodput& goodput) {
    return goodput[GoodputPhase::productive] + goodput[GoodputPhase::redone] > Duration{};
}

std::string goodput_text(const control::Goodput& goodput) {
    const auto sum = goodput.sum();
    auto text = length_text(sum) + ':';
    const char* separator = " ";
    control::for_each_phase([&](GoodputPhase phase) {
        const auto share = share_of(goodput[phase], sum);
        if (share == 0) return;
        std::string name{control::name_of(phase)};
        std::replace(name.begin(), name.end(), '_', ' ');
        text += separator + name + ' ' + std::to_string(share / 10) + '.' +
                std::to_string(share % 10) + " %";
        separator = ", ";
    });
    return text;
}

}  // namespace ddprun::agent
