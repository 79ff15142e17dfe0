// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::agent {

/// A POSIX extended regular expression whose first group is a step (--progress-regex); `\d` is
/// accepted for [0-9]. Back references are refused, since matching them could take for ever. Pure.
class ProgressPattern {
public:
    static Result<ProgressPattern> parse(const std::string& text);

    /// None: no match, or its group is no 64-bit number.
    std::optional<std::uint64_t> step_in(const std::string& line) const;

private:
    struct Compiled;
    explicit ProgressPattern(std::shared_ptr<const Compiled> compiled)
        : compiled_(std::move(compiled)) {}

    std::shared_ptr<const Compiled> compiled_;
};

/// Finds the steps in one worker's output of one round. Switches itself off, with a reason, when
/// the pattern matches something else than a growing step, or costs too much.
class ProgressReader {
public:
    explicit ProgressReader(ProgressPattern pattern) : pattern_(std::move(pattern)) {}

    /// Returns the newest step of the lines that end in these bytes, if any line has one. A line
    /// ends with LF or CR; lines longer than `limits::max_progress_line_bytes` are ignored.
    std::optional<std::uint64_t> append(std::string_view bytes);
    /// Records how much processor time `append` took, and when.
    void add_cost(Duration cost, Instant now);
    bool is_off() const { return !why_off_.empty(); }
    /// Why it has switched itself off; empty: it has not.
    const std::string& why_off() const { return why_off_; }

private:
    void on_line(std::optional<std::uint64_t>& newest);

    ProgressPattern pattern_;
    std::string line_;
    bool is_too_long_ = false;
    int match_count_ = 0;
    std::optional<std::uint64_t> last_;
    std::optional<Instant> cost_since_;
    Duration cost_{};
    std::string why_off_;
};

}  // namespace ddprun::agent
