// SPDX-License-Identifier: Apache-2.0
#include "agent/output/progress_pattern.hpp"

#include "agent/report/printable.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <regex.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <utility>

namespace ddprun::agent {
namespace progress_pattern {
namespace {

using namespace std::chrono_literals;

/// A pattern that matches something else shows early that its number does not grow.
constexpr int watched_matches = 10;
/// More than this part of one processor is too much.
constexpr double highest_cost = 0.05;
constexpr Duration cost_window = 2s;
constexpr std::size_t longest_shown_bytes = 200;

Failure refused(const std::string& why) {
    return {system_code(EINVAL), why};
}

/// `\d` as POSIX writes it. Empty: there is a back reference.
std::optional<std::string> as_posix(const std::string& text) {
    std::string result;
    bool is_in_brackets = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c != '\\' || at + 1 == text.size()) {
            if (c == '[') is_in_brackets = true;
            if (c == ']') is_in_brackets = false;
            result += c;
            continue;
        }
        const char next = text[++at];
        if (next >= '1' && next <= '9' && !is_in_brackets) return std::nullopt;
        if (next == 'd')
            result += is_in_brackets ? "0-9" : "[0-9]";
        else
            result.append({c, next});
    }
    return result;
}

}  // namespace
}  // namespace progress_pattern

struct ProgressPattern::Compiled {
    Compiled() = default;
    ~Compiled() {
        if (is_compiled) ::regfree(&regex);
    }
    Compiled(const Compiled&) = delete;
    Compiled& operator=(const Compiled&) = delete;

    regex_t regex{};
    bool is_compiled = false;
};

Result<ProgressPattern> ProgressPattern::parse(const std::string& text) {
    using namespace progress_pattern;
    if (text.size() > limits::max_progress_pattern_bytes)
        return refused(
            "accepted are " + std::to_string(limits::max_progress_pattern_bytes) + " bytes");
    const auto posix = as_posix(text);
    if (!posix) return refused("a back reference is not accepted");
    auto compiled = std::make_shared<Compiled>();
    const int error = ::regcomp(&compiled->regex, posix->c_str(), REG_EXTENDED);
    if (error != 0) {
        std::array<char, 128> words{};
        ::regerror(error, &compiled->regex, words.data(), words.size());
        return refused("no POSIX extended regular expression: " + std::string{words.data()});
    }
    compiled->is_compiled = true;
    if (compiled->regex.re_nsub == 0)
        return refused("a group for the step is missing, as in 'step[ =]([0-9]+)'");
    return ProgressPattern{std::move(compiled)};
}

std::optional<std::uint64_t> ProgressPattern::step_in(const std::string& line) const {
    std::array<regmatch_t, 2> groups{};
    if (::regexec(&compiled_->regex, line.c_str(), groups.size(), groups.data(), 0) != 0)
        return std::nullopt;
    const auto& group = groups[1];
    if (group.rm_so < 0) return std::nullopt;
    std::uint64_t step = 0;
    const auto* end = line.data() + group.rm_eo;
    const auto read = std::from_chars(line.data() + group.rm_so, end, step);
    if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    return step;
}

std::optional<std::uint64_t> ProgressReader::append(std::string_view bytes) {
    std::optional<std::uint64_t> newest;
    while (!bytes.empty() && !is_off()) {
        const auto end = bytes.find_first_of("\r\n");
        const auto piece = bytes.substr(0, end);
        is_too_long_ |= line_.size() + piece.size() > limits::max_progress_line_bytes;
        if (is_too_long_)
            line_.clear();
        else
            line_ += piece;
        if (end == std::string_view::npos) break;
        bytes.remove_prefix(end + 1);
        if (!is_too_long_) on_line(newest);
        is_too_long_ = false;
        line_.clear();
    }
    return is_off() ? std::nullopt : newest;
}

void ProgressReader::on_line(std::optional<std::uint64_t>& newest) {
    using namespace progress_pattern;
    const auto step = pattern_.step_in(line_);
    if (!step) return;
    ++match_count_;
    if (last_ && *step < *last_ && match_count_ <= watched_matches) {
        why_off_ = "after " + std::to_string(*last_) + " it matches " + std::to_string(*step) +
                   " in the line '" + shortened(printable(line_), longest_shown_bytes) + "'";
        return;
    }
    last_ = step;
    newest = step;
}

void ProgressReader::add_cost(Duration cost, Instant now) {
    using namespace progress_pattern;
    cost_ += cost;
    if (!cost_since_) cost_since_ = now;
    const auto length = now - *cost_since_;
    if (length < cost_window) return;
    if (in_seconds(cost_) > highest_cost * in_seconds(length))
        why_off_ = "it takes more than 5 % of a processor";
    cost_since_ = now;
    cost_ = {};
}

}  // namespace ddprun::agent
