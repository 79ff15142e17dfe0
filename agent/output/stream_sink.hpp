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

/// Our standard output and error as the writer's thread uses them: which line is unfinished there,
/// and whose it is, so that whole lines stay whole. Blocks; for the writer's thread only.
class Console {
public:
    Console();

    /// Writes everything, whatever the descriptor is: a terminal, a pipe whose reader is gone, one
    /// that was made non-blocking elsewhere. An error ends this piece of output and nothing else; the
    /// first one of each descriptor is logged, unless it is that the reader is gone.
    void write(int descriptor, std::string_view bytes);
    /// The same for bytes that are not split into lines: they begin on a line of their own when
    /// another line is unfinished, and so does what comes after unfinished ones.
    void pass(int descriptor, std::string_view bytes);

    /// The owner of the unfinished line there; null: there is none. A terminal that is both is one
    /// place.
    const void* line_owner(int descriptor) const { return owners_[place_of(descriptor)]; }
    void set_line_owner(int descriptor, const void* owner) {
        owners_[place_of(descriptor)] = owner;
    }

    /// Grows while any output is accepted. From any thread.
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

/// Where the bytes of one stream of one worker end: the console, a file, the node's file of
/// filtered lines. Made anywhere; everything but what says otherwise belongs to the writer's
/// thread.
class StreamSink : public std::enable_shared_from_this<StreamSink> {
public:
    struct Targets {
        /// STDOUT_FILENO, STDERR_FILENO, or -1: not shown.
        int console = -1;
        std::shared_ptr<LogFile> file;
        std::shared_ptr<LogFile> filtered_file;
        /// Texts of which a line for `filtered_file` has one.
        std::vector<std::string> filters;
    };
    /// Byte for byte; lines with a prefix (in files, byte for byte); JSON, in files as well.
    struct Raw {};
    using Format = std::variant<Raw, LinePrefix, JsonLine>;

    /// `line_timeout`: how long a line may stay unfinished before it is shown as far as it is
    /// there.
    StreamSink(
        boost::asio::io_context& queue,
        Console& console,
        Targets targets,
        Format format,
        Duration line_timeout);

    void take(std::string_view bytes);
    /// What was begun is finished; nothing comes any more.
    void end();

    /// From the agent's thread: bytes are on their way here, or wait in the pipe until there is
    /// room. Until they came no line is taken for abandoned.
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
    /// How much of the unfinished line is on the console.
    std::size_t shown_bytes_ = 0;
    bool is_watching_ = false;
    /// Something came while it was being watched.
    bool is_fresh_ = false;
    std::atomic<int> announced_{0};
    std::atomic<bool> is_paused_{false};

    // Of the current bytes.
    std::string time_;
    std::string console_text_;
    std::string file_text_;
    std::string filtered_text_;
};

}  // namespace ddprun::agent
