// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The user's options for the workers' output as values; their effect on one stream of one worker
/// (`route_of`); and the names of log files.
///
/// In ddprun's own layout no two rounds share a file; existing files are only appended to:
///
///   ddprun    DIR/RUN_INCARNATION/round-R/HOST/rank-G/stdout.log       DIR/latest -> .../round-R
///   torchrun  DIR/RUN_NODE/attempt_RESTARTS/LOCAL/stdout.log
///
/// with stderr.log and error.json beside stdout.log, and the node's filtered_stdout.log and
/// filtered_stderr.log one folder above. Because of the incarnation, a run id that is used again
/// gets another folder, the same one on all nodes of the job.
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
    /// Masks for files; of two masks for the same rank the later one counts.
    std::vector<RankMask> redirects;
    /// Masks for files and the console.
    std::vector<RankMask> tee;
    /// The ranks shown on the console; empty: all.
    std::vector<RankRange> console_ranks;

    LogFormat format = LogFormat::text;
    std::string prefix = "[${role_name}${local_rank}]:";
    /// The prefix is added to everything on the console, not only to teed output.
    bool prefixes_everything = false;

    /// An absolute path; empty: no files.
    std::string log_dir;
    LogLayout layout = LogLayout::ddprun;
    /// When a file has reached this size, it is renamed and a new one begun.
    std::optional<std::uint64_t> max_file_bytes;
    /// How many renamed files are kept; absent: all.
    std::optional<int> kept_files;

    /// Teed lines that contain one of these texts also go to a file of the whole node.
    std::vector<std::string> out_filters;
    std::vector<std::string> err_filters;

    /// A pattern for the lines in which rank 0 writes its step to standard output; empty: none.
    std::string progress_pattern;

    const std::vector<std::string>& filters(Stream stream) const {
        return stream == Stream::out ? out_filters : err_filters;
    }
    bool operator==(const OutputPlan&) const = default;
};

/// Where one stream of one worker goes.
struct StreamRoute {
    bool to_console = true;
    /// Output is written as whole lines with a prefix, or as JSON; else byte for byte.
    bool is_formatted = false;
    bool to_file = false;
    /// Its lines are checked for the node's file of filtered lines.
    bool is_filtered = false;

    /// The worker may write to the agent's own stream directly.
    bool is_inherited() const { return to_console && !is_formatted && !to_file; }
    bool operator==(const StreamRoute&) const = default;
};

StreamRoute route_of(const OutputPlan& plan, Stream stream, int local_rank, int rank);

/// How many descriptors the agent needs for this number of workers: to watch each of them, for its
/// streams and files, and for its connection to a store that is served here.
int descriptors_needed(const OutputPlan& plan, int worker_count);

/// The parts of file names that depend on the round and node.
struct LogPlace {
    std::string run_id;
    std::string incarnation;
    /// The nonce of this node.
    std::string nonce;
    std::string host;
    int round = 0;
    int restart_count = 0;
};

/// A round's folder on this node.
struct LogFolder {
    /// Empty: there are no files.
    std::string path;
    LogLayout layout = LogLayout::ddprun;

    bool is_none() const { return path.empty(); }
    std::string of_worker(int local_rank, int rank) const;
    std::string file_of_worker(Stream stream, int local_rank, int rank) const;
    std::string filtered_file(Stream stream) const;

    bool operator==(const LogFolder&) const = default;
};

LogFolder log_folder(const OutputPlan& plan, const LogPlace& place);

/// The target of DIR/latest, relative to DIR; empty: there is no such link.
std::string latest_link_target(const OutputPlan& plan, const LogPlace& place);

/// Turns any text into a file name: without slashes and control characters, not hidden, not long.
std::string as_file_name(std::string_view text);

}  // namespace ddprun::agent
