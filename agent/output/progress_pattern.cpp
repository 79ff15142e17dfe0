// SPDX-License-Identifier: Apache-2.0
#include "agent/output/progress_pattern.hpp"

#include "agent/report/printable.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <regex.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::agent {
namespace progress_pattern {
namespace {

using namespace std::chrono_literals;

/// The first matches show whether a pattern matches something else than a growing step.
constexpr int watched_matches = 10;
/// Matching must cost less than this share of one processor.
constexpr double highest_cost = 0.05;
constexpr Duration cost_window = 2s;
constexpr std::size_t longest_shown_bytes = 200;
/// regcomp expands repetitions: a few nested ones would use up all memory.
constexpr std::size_t most_written_out = 2'000;

Failure refused(const std::string& why) {
    return {system_code(EINVAL), why};
}

/// The position after the bracket expression that begins here: `[^]a]`, `[[:alpha:]]`. In it a
/// backslash is an ordinary character, and so is a leading `]`.
std::size_t bracket_end(std::string_view text, std::size_t begin) {
    auto at = begin + 1;
    if (at < text.size() && text[at] == '^') ++at;
    if (at < text.size() && text[at] == ']') ++at;
    while (at < text.size() && text[at] != ']') {
        const char kind = at + 1 < text.size() ? text[at + 1] : ']';
        const bool is_class = text[at] == '[' && (kind == ':' || kind == '.' || kind == '=');
        const auto end = is_class ? text.find(std::string{kind, ']'}, at + 2) : at;
        if (end == std::string_view::npos) return text.size();
        at = is_class ? end + 2 : at + 1;
    }
    return std::min(at + 1, text.size());
}

/// Translates `\d` for POSIX. None: there is a back reference.
std::optional<std::string> as_posix(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] == '[') {
            const auto end = bracket_end(text, at);
            for (; at < end; ++at) {
                const bool is_digit = text.substr(at, end - at).starts_with("\\d");
                result += is_digit ? "0-9" : std::string{text[at]};
                at += is_digit ? 1U : 0U;
            }
            continue;
        }
        if (text[at] != '\\' || at + 1 == text.size()) {
            result += text[at++];
            continue;
        }
        const char next = text[at + 1];
        if (next >= '1' && next <= '9') return std::nullopt;
        result += next == 'd' ? "[0-9]" : std::string{text.substr(at, 2)};
        at += 2;
    }
    return result;
}

/// Counts the characters of a pattern after its repetitions are expanded, as by regcomp:
/// `(ab{3}){2}` has 2 * (1 + 3). A bracket expression or group counts as one more.
class WrittenOut {
public:
    std::size_t size_of(std::string_view text) {
        for (std::size_t at = 0; at < text.size();)
            at = take(text, at);
        while (sizes_.size() > 1)
            close_group();
        return sizes_.back() + last_;
    }

private:
    /// Returns the beginning of the next part.
    std::size_t take(std::string_view text, std::size_t at) {
        switch (text[at]) {
            case '[': add(1); return bracket_end(text, at);
            case '\\': add(1); return at + 2;
            case '(':
                add(0);
                sizes_.push_back(0);
                break;
            case ')': close_group(); break;
            case '+': repeat(2); break;
            case '{': return take_bound(text, at);
            case '*':
            case '?': break;
            default: add(1);
        }
        return at + 1;
    }

    std::size_t take_bound(std::string_view text, std::size_t at) {
        std::size_t highest = 0;
        std::size_t number = 0;
        for (++at; at < text.size() && text[at] != '}'; ++at) {
            const bool is_digit = text[at] >= '0' && text[at] <= '9';
            number = is_digit ? capped(number * 10 + static_cast<std::size_t>(text[at] - '0')) : 0;
            highest = std::max(highest, number);
            // `{3,}` is expanded to three repetitions and one for any further ones.
            if (text.substr(at, 2) == ",}") ++highest;
        }
        repeat(std::max<std::size_t>(highest, 1));
        return at + 1;
    }

    void add(std::size_t size) {
        sizes_.back() = capped(sizes_.back() + last_);
        last_ = size;
    }
    void close_group() {
        if (sizes_.size() == 1) return add(1);
        last_ = capped(sizes_.back() + last_ + 1);
        sizes_.pop_back();
    }
    void repeat(std::size_t count) { last_ = capped(last_ * count); }
    static std::size_t capped(std::size_t size) { return std::min(size, most_written_out + 1); }

    /// Sizes of the open groups, without their last part.
    std::vector<std::size_t> sizes_{0};
    /// The size of the part that a repetition would repeat.
    std::size_t last_ = 0;
};

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
    if (WrittenOut{}.size_of(*posix) > most_written_out)
        return refused(
            "its repetitions written out have more than " + std::to_string(most_written_out) +
            " characters");
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
    return whole_number<std::uint64_t>(std::string_view{line}.substr(
        static_cast<std::size_t>(group.rm_so),
        static_cast<std::size_t>(group.rm_eo - group.rm_so)));
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
