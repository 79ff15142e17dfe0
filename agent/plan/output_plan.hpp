// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What the user asked for about the workers' output, as values; what that means for one stream of
/// one worker (`route_of`); and the names of log files.
///
/// No two rounds share a file in ddprun's own layout, and what is there already is only ever added
/// to:
///
///   ddprun    DIR/RUN_INCARNATION/round-R/HOST/rank-G/stdout.log       DIR/latest -> .../round-R
///   torchrun  DIR/RUN_NODE/attempt_RESTARTS/LOCAL/stdout.log
///
/// with stderr.log and error.json beside stdout.log, and the node's filtered_stdout.log and
/// filtered_stderr.log one folder above. The incarnation makes a run id that is used again another
/// folder, the same one on all nodes of the job.
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

    /// Of the lines in which rank 0 writes its step to standard output; empty: none is looked for.
    std::string progress_pattern;

    const std::vector<std::string>& filters(Stream stream) const {
        return stream == Stream::out ? out_filters : err_filters;
    }
    bool operator==(const OutputPlan&) const = default;
};

/// Where one stream of one worker goes.
struct StreamRoute {
    bool to_console = true;
    /// As whole lines with a prefix, or as JSON; else byte for byte.
    bool is_formatted = false;
    bool to_file = false;
    /// Its lines are looked at for the node's file of filtered ones.
    bool is_filtered = false;

    /// The worker may write to our own stream itself.
    bool is_inherited() const { return to_console && !is_formatted && !to_file; }
    bool operator==(const StreamRoute&) const = default;
};

StreamRoute route_of(const OutputPlan& plan, Stream stream, int local_rank, int rank);

/// How many descriptors the agent needs for so many workers: to watch each, for its streams and
/// files, and for its connection to a store that is served here.
int descriptors_needed(const OutputPlan& plan, int worker_count);

/// One round on one node, as far as names depend on it.
struct LogPlace {
    std::string run_id;
    std::string incarnation;
    /// Of this node.
    std::string nonce;
    std::string host;
    int round = 0;
    int restart_count = 0;
};

/// A round's folder on this node.
struct LogFolder {
    /// Empty: nothing is written to files.
    std::string path;
    LogLayout layout = LogLayout::ddprun;

    bool is_none() const { return path.empty(); }
    std::string of_worker(int local_rank, int rank) const;
    std::string file_of_worker(Stream stream, int local_rank, int rank) const;
    std::string filtered_file(Stream stream) const;

    bool operator==(const LogFolder&) const = default;
};

LogFolder log_folder(const OutputPlan& plan, const LogPlace& place);

/// What DIR/latest should point to, relative to DIR; empty: there is no such link.
std::string latest_link_target(const OutputPlan& plan, const LogPlace& place);

/// Any text as one name of a file: without slashes and control characters, not hidden, not long.
std::string as_file_name(std::string_view text);

}  // namespace ddprun::agent
