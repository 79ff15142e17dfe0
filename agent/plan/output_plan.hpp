// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

/// What the user asked for about the workers' output, as values. What it means for one stream of
/// one worker is stream_route; the names of files are log_layout.
namespace ddprun::agent {

enum class Stream : std::uint8_t { out, err };

/// Ranks of this node (0 is its first worker), or ranks of the job.
struct RankRange {
    int first = 0;
    int last = std::numeric_limits<int>::max();
    bool is_global = false;

    bool contains(int local_rank, int rank) const {
        const int number = is_global ? rank : local_rank;
        return first <= number && number <= last;
    }
    bool operator==(const RankRange&) const = default;
};

struct RankMask {
    RankRange ranks;
    bool has_out = false;
    bool has_err = false;

    bool operator==(const RankMask&) const = default;
};

enum class LogLayout : std::uint8_t { ddprun, torchrun };
enum class LogFormat : std::uint8_t { text, json };

struct OutputPlan {
    /// To files; of two that name the same rank the later counts.
    std::vector<RankMask> redirects;
    /// To files and to the console.
    std::vector<RankMask> tee;
    /// The ranks shown on the console; empty: all.
    std::vector<RankRange> console_ranks;

    LogFormat format = LogFormat::text;
    std::string prefix = "[${role_name}${local_rank}]:";
    /// The prefix is for everything on the console, and not only for what is teed.
    bool prefixes_everything = false;

    /// Absolute; empty: no files.
    std::string log_dir;
    LogLayout layout = LogLayout::ddprun;
    /// A file that has reached this size is renamed and another begun.
    std::optional<std::uint64_t> max_file_bytes;
    /// How many renamed ones are kept; absent: all.
    std::optional<int> kept_files;

    /// Teed lines with one of these in them also go to a file of the whole node.
    std::vector<std::string> out_filters;
    std::vector<std::string> err_filters;

    const std::vector<std::string>& filters(Stream stream) const {
        return stream == Stream::out ? out_filters : err_filters;
    }
    bool operator==(const OutputPlan&) const = default;
};

}  // namespace ddprun::agent
