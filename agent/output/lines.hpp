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
    /// Without its line end.
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
/// repeatedly, become lines too (a return on an empty line is ignored). A line longer than
/// limits::max_line_bytes is split into parts, and so is a line whose beginning `flush` took; no
/// part ends inside a character.
///
/// Pieces are views that are valid until the next call of `append`.
class LineSplitter {
public:
    void append(std::string_view bytes);
    /// Returns the next piece, if there is a complete one.
    std::optional<LinePiece> next();
    /// The unfinished line so far, in whole characters; may be empty. It is not removed: `next` or
    /// `finish` returns it with the rest. Requires: `next` has returned none.
    LinePiece unfinished() const;
    /// Returns the unfinished line and removes it: the rest is the next part. None when it is
    /// empty.
    std::optional<LinePiece> flush();
    /// No more bytes will come: returns what is left, with the end of the line if one was begun.
    /// Requires: `next` has returned none.
    std::optional<LinePiece> finish();

private:
    std::string_view rest() const { return std::string_view{buffer_}.substr(at_); }
    LinePiece take(std::size_t size, std::size_t separator_size, bool ends_line);
    /// Skips an LF directly after a CR that has ended a line.
    void skip_second_half();

    std::string buffer_;
    std::size_t at_ = 0;
    int part_ = 1;
    bool has_ended_by_return_ = false;
};

/// The values that one worker's prefix can show.
struct PrefixValues {
    std::string role;
    int local_rank = 0;
    int rank = 0;
    std::string host;
};

/// The template before each line of a worker: torchrun's `${role_name}`, `${local_rank}`, `${rank}`
/// and `${hostname}`, and `${time}` (the time of day at which the line was read). Braces are
/// optional, `$$` is `$`, and unknown names stay as typed. Pure.
class LinePrefix {
public:
    LinePrefix(std::string_view text, const PrefixValues& values);

    void append_to(std::string& out, std::string_view time) const;

private:
    /// The constant parts; the time is inserted between them.
    std::vector<std::string> fixed_;
};

/// The worker and stream of a line.
struct LineOrigin {
    std::string run_id;
    int round = 0;
    std::string host;
    int rank = 0;
    /// "stdout" or "stderr".
    std::string_view stream;
};

/// Lines of one stream as JSON objects, one to a line: time, run, round, host, rank, stream,
/// message; a part of a line has its number in `part`, and `continues` when more parts follow. The
/// result is valid JSON for any bytes. Pure.
class JsonLine {
public:
    explicit JsonLine(const LineOrigin& origin);

    void append_to(std::string& out, const LinePiece& piece, std::string_view time) const;

private:
    /// Everything between the time and the message.
    std::string origin_;
};

}  // namespace ddprun::agent
