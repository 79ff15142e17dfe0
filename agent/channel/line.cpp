// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/line.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <array>
#include <charconv>

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
    const auto [end, error] = std::from_chars(pid.data(), pid.data() + pid.size(), greeting.pid);
    const bool is_pid = error == std::errc{} && end == pid.data() + pid.size() && greeting.pid > 0;
    greeting.language = line;
    if (greeting.token.empty() || !is_pid || !is_language(line)) return std::nullopt;
    return greeting;
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
