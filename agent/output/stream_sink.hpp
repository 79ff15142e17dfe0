// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/output/lines.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::agent {

/// The agent's standard output and error, as used by the writer's thread. Tracks which line is
/// unfinished there and its owner, so that whole lines are not mixed. Blocks; for the writer's
/// thread only.
class Console {
public:
    Console();

    /// Writes all bytes, whatever the descriptor is: a terminal, a pipe without a reader, or a
    /// descriptor made non-blocking elsewhere. An error drops only this piece of output. The first
    /// error of each descriptor is logged, except that of a pipe without a reader.
    void write(int descriptor, std::string_view bytes);
    /// The same for bytes that are not split into lines: if another line is unfinished, they begin
    /// on a new line, and so does output after an unfinished line of theirs.
    void pass(int descriptor, std::string_view bytes);

    /// The owner of the unfinished line there; null: there is none. If both descriptors are the
    /// same terminal, they share one line.
    const void* line_owner(int descriptor) const { return owners_[place_of(descriptor)]; }
    void set_line_owner(int descriptor, const void* owner) {
        owners_[place_of(descriptor)] = owner;
    }

    /// Increases with every accepted output. From any thread.
    std::uint64_t written_bytes() const { return written_bytes_; }

private:
    std::size_t place_of(int descriptor) const;
    void complain(int descriptor, int error_number);

    bool is_one_place_;
    std::array<bool, 2> has_complained_{};
    std::array<const void*, 2> owners_{};
    std::atomic<std::uint64_t> written_bytes_{0};
};

class LogFile;

/// The destinations of one stream of one worker: the console, a file, the node's file of filtered
/// lines. May be created on any thread; unless stated otherwise, all calls belong to the writer's
/// thread.
class StreamSink : public std::enable_shared_from_this<StreamSink> {
public:
    struct Targets {
        /// STDOUT_FILENO, STDERR_FILENO, or -1: not shown on the console.
        int console = -1;
        std::shared_ptr<LogFile> file;
        std::shared_ptr<LogFile> filtered_file;
        /// Lines that contain one of these texts go to `filtered_file`.
        std::vector<std::string> filters;
    };
    /// The format on the console: byte for byte; lines with a prefix (in files byte for byte); or
    /// JSON, in files too.
    struct Raw {};
    using Format = std::variant<Raw, LinePrefix, JsonLine>;

    /// `line_timeout`: how long a line may stay unfinished before its beginning is shown.
    StreamSink(
        boost::asio::io_context& queue,
        Console& console,
        Targets targets,
        Format format,
        Duration line_timeout);

    void take(std::string_view bytes);
    /// No more bytes will come: finishes an unfinished line.
    void end();

    /// Called on the agent's thread: bytes are on their way here, or wait in the pipe for room.
    /// Until they arrive no line counts as abandoned.
    void announce() { ++announced_; }
    void set_paused(bool is_paused) { is_paused_ = is_paused; }

private:
    void handle_lines();
    void handle(const LinePiece& piece);
    void add_to_console(const LinePiece& piece);
    void write_out();
    bool has_unseen() const;
    void watch_unfinished_line();
    void show_unfinished_line();

    Console& console_;
    Targets targets_;
    Format format_;
    LineSplitter splitter_;
    Duration line_timeout_;
    boost::asio::steady_timer timer_;
    /// How many bytes of the unfinished line are on the console.
    std::size_t shown_bytes_ = 0;
    bool is_watching_ = false;
    /// Bytes have arrived since it was last checked.
    bool is_fresh_ = false;
    std::atomic<int> announced_{0};
    std::atomic<bool> is_paused_{false};

    // The time of the current bytes.
    std::string time_;
    std::string console_text_;
    std::string file_text_;
    std::string filtered_text_;
};

}  // namespace ddprun::agent
