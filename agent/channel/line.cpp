// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/line.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/percent.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::agent::channel {
namespace {

constexpr std::string_view first_word = "ddprun-worker/1";
constexpr std::size_t longest_language = 16;

/// Returns the text up to the next space, and removes both.
std::string_view take_word(std::string_view& line) {
    const auto word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    return word;
}

bool is_language(std::string_view word) {
    return !word.empty() && word.size() <= longest_language &&
           std::all_of(word.begin(), word.end(), [](char c) { return c > ' ' && c < '\x7F'; });
}

bool is_plain_in_value(char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '%' && c != '\x7F';
}

}  // namespace

LineReader::Next LineReader::next() {
    const auto end = rest_.find('\n');
    if (std::min(end, rest_.size()) > limits::max_channel_line_bytes) return {State::too_long};
    if (end == std::string::npos) return {State::incomplete};
    Next found{State::complete, rest_.substr(0, end)};
    rest_.erase(0, end + 1);
    return found;
}

std::optional<Greeting> parse_greeting(std::string_view line) {
    // Exactly three spaces: no word is empty, and no text follows the last word.
    if (std::count(line.begin(), line.end(), ' ') != 3) return std::nullopt;
    if (take_word(line) != first_word) return std::nullopt;
    Greeting greeting;
    greeting.token = take_word(line);
    const auto pid = take_word(line);
    greeting.pid = whole_number<int>(pid).value_or(0);
    greeting.language = line;
    if (greeting.token.empty() || greeting.pid <= 0 || !is_language(line)) return std::nullopt;
    return greeting;
}

std::optional<Holding> parse_holding(std::string_view line) {
    if (std::count(line.begin(), line.end(), ' ') != 3) return std::nullopt;
    if (take_word(line) != "holding") return std::nullopt;
    const auto round = whole_number<int>(take_word(line));
    if (!round || *round < 0) return std::nullopt;
    Holding holding;
    holding.round = *round;
    const auto step = take_word(line);
    if (step != "none") {
        holding.committed = whole_number<std::uint64_t>(step);
        if (!holding.committed) return std::nullopt;
    }
    holding.is_clean = line == "clean";
    if (!holding.is_clean && line != "dirty") return std::nullopt;
    return holding;
}

std::string hold_line(int round, Duration time) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    return "hold " + std::to_string(round) + ' ' + std::to_string(left);
}

std::string go_line(int round, const std::vector<std::string>& environment) {
    auto line = "go " + std::to_string(round);
    for (const auto& variable : environment) {
        const auto equals = variable.find('=');
        line += ' ' + variable.substr(0, equals) + '=' +
                percent_encoded(std::string_view{variable}.substr(equals + 1), is_plain_in_value);
    }
    return line;
}

std::string refused_line(std::string_view reason) {
    return "refused " + std::string{reason};
}

bool is_same_token(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i])) ^
                      static_cast<unsigned char>(b[i]);
    return difference == 0;
}

}  // namespace ddprun::agent::channel
