// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// A line of output, or a part of one.
struct LinePiece {
    /// Without the line's end.
    std::string_view text;
    /// Counts the parts of one line from 1.
    int part = 1;
    bool ends_line = true;

    bool is_whole_line() const { return part == 1 && ends_line; }
    bool operator==(const LinePiece&) const = default;
};

/// Cuts a stream of bytes into lines. Pure.
///
/// A line ends with LF, CR LF or CR: progress bars, which return to the beginning of the line
/// again and again, become lines as well (a return where nothing was written yet is no line). A
/// line longer than limits::max_line_bytes comes in parts, and so does one of which `flush` took
/// the beginning; no part ends inside a character.
///
/// Pieces are views that hold until the next call of `append`.
class LineSplitter {
public:
    void append(std::string_view bytes);
    /// The next piece, when there is enough for one.
    std::optional<LinePiece> next();
    /// The unfinished line, as far as it is there and in whole characters; may be empty. It stays,
    /// and comes with the rest from `next` or `finish`. Requires: `next` has nothing more.
    LinePiece unfinished() const;
    /// The same, taken out: the rest comes as the next part. Nothing when it is empty.
    std::optional<LinePiece> flush();
    /// There will be no more bytes: what is left, and the end of the line if one was begun.
    /// Requires: `next` has nothing more.
    std::optional<LinePiece> finish();

private:
    std::string_view rest() const { return std::string_view{buffer_}.substr(at_); }
    LinePiece take(std::size_t size, std::size_t separator_size, bool ends_line);
    /// LF directly behind a CR that has ended a line.
    void skip_second_half();

    std::string buffer_;
    std::size_t at_ = 0;
    int part_ = 1;
    bool has_ended_by_return_ = false;
};

/// What one worker's prefix can show.
struct PrefixValues {
    std::string role;
    int local_rank = 0;
    int rank = 0;
    std::string host;
};

/// The template before each line of a worker: torchrun's `${role_name}`, `${local_rank}`, `${rank}`
/// and `${hostname}`, and `${time}` (the time of day at which the line was read). Braces may be
/// left out, `$$` is `$`, and what is not known stays as it was typed. Pure.
class LinePrefix {
public:
    LinePrefix(std::string_view text, const PrefixValues& values);

    void append_to(std::string& out, std::string_view time) const;

private:
    /// The time stands between them.
    std::vector<std::string> fixed_;
};

/// Whose line it is.
struct LineOrigin {
    std::string run_id;
    int round = 0;
    std::string host;
    int rank = 0;
    /// "stdout" or "stderr".
    std::string_view stream;
};

/// Lines of one stream as JSON objects, one to a line: time, run, round, host, rank, stream,
/// message; a part of a line has its number in `part`, and `continues` when more of it follows.
/// Whatever the bytes are, the line parses. Pure.
class JsonLine {
public:
    explicit JsonLine(const LineOrigin& origin);

    void append_to(std::string& out, const LinePiece& piece, std::string_view time) const;

private:
    /// Everything between the time and the message.
    std::string origin_;
};

}  // namespace ddprun::agent
