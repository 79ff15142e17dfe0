// SPDX-License-Identifier: Apache-2.0
#include "agent/output/stream_sink.hpp"

#include "agent/output/log_file.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/wall_time.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ddprun::agent {
namespace {

bool are_one_file(int left, int right) {
    struct stat a {};
    struct stat b {};
    return ::fstat(left, &a) == 0 && ::fstat(right, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

bool has_one_of(std::string_view text, const std::vector<std::string>& needles) {
    return std::any_of(needles.begin(), needles.end(), [&](const std::string& needle) {
        return text.find(needle) != std::string_view::npos;
    });
}

}  // namespace

Console::Console() : is_one_place_(are_one_file(STDOUT_FILENO, STDERR_FILENO)) {}

void Console::write(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto size = ::write(descriptor, bytes.data(), bytes.size());
        if (size > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(size));
            written_bytes_ += static_cast<std::uint64_t>(size);
        } else if (size < 0 && errno == EAGAIN) {
            pollfd room{descriptor, POLLOUT, 0};
            ::poll(&room, 1, -1);
        } else if (size < 0 && errno != EINTR) {
            return complain(descriptor, errno);
        }
    }
}

void Console::complain(int descriptor, int error_number) {
    if (error_number == EPIPE || std::exchange(has_complained_[place_of(descriptor)], true)) return;
    log::error(
        "output.not_written",
        {{"stream", descriptor == STDERR_FILENO ? "stderr" : "stdout"},
         {"reason", system_code(error_number).message()}});
}

void Console::pass(int descriptor, std::string_view bytes) {
    if (bytes.empty()) return;
    // All sinks that pass raw bytes count as one owner, the console itself: between them no line
    // end is added.
    const auto* owner = line_owner(descriptor);
    if (owner != nullptr && owner != this) write(descriptor, "\n");
    write(descriptor, bytes);
    set_line_owner(descriptor, bytes.back() == '\n' ? nullptr : this);
}

std::size_t Console::place_of(int descriptor) const {
    return descriptor == STDERR_FILENO && !is_one_place_ ? 1 : 0;
}

StreamSink::StreamSink(
    boost::asio::io_context& queue,
    Console& console,
    Targets targets,
    Format format,
    Duration line_timeout)
    : console_(console),
      targets_(std::move(targets)),
      format_(std::move(format)),
      line_timeout_(line_timeout),
      timer_(queue) {}

void StreamSink::take(std::string_view bytes) {
    --announced_;
    const bool is_json = std::holds_alternative<JsonLine>(format_);
    if (targets_.file && !is_json) targets_.file->write(bytes);
    if (std::holds_alternative<Raw>(format_)) {
        if (targets_.console >= 0) console_.pass(targets_.console, bytes);
        return;
    }
    splitter_.append(bytes);
    is_fresh_ = is_watching_;
    handle_lines();
    write_out();
    watch_unfinished_line();
}

void StreamSink::end() {
    if (std::holds_alternative<Raw>(format_)) return;
    handle_lines();
    if (const auto piece = splitter_.finish()) handle(*piece);
    write_out();
}

void StreamSink::handle_lines() {
    const bool is_json = std::holds_alternative<JsonLine>(format_);
    time_ = is_json ? utc_time() : time_of_day();
    while (const auto piece = splitter_.next())
        handle(*piece);
}

void StreamSink::handle(const LinePiece& piece) {
    const bool is_wanted = targets_.filtered_file && has_one_of(piece.text, targets_.filters);
    if (const auto* json = std::get_if<JsonLine>(&format_)) {
        const auto before = file_text_.size();
        json->append_to(file_text_, piece, time_);
        const auto line = std::string_view{file_text_}.substr(before);
        if (is_wanted) filtered_text_ += line;
        if (targets_.console >= 0) console_text_ += line;
        return;
    }
    if (targets_.console >= 0) add_to_console(piece);
    if (!is_wanted) return;
    std::get<LinePrefix>(format_).append_to(filtered_text_, time_);
    filtered_text_.append(piece.text).append("\n");
}

/// Continues the line that this sink has left unfinished on the console. If other output has ended
/// that line meanwhile, writes the whole line again, unless all of it is already there.
void StreamSink::add_to_console(const LinePiece& piece) {
    const auto shown = std::exchange(shown_bytes_, 0);
    const auto* owner = console_.line_owner(targets_.console);
    const bool goes_on = owner == this;
    if (!goes_on) {
        const bool is_there = piece.ends_line && piece.text.size() == shown;
        if (is_there && (shown > 0 || piece.part > 1)) return;
        if (owner != nullptr) console_text_ += '\n';
        std::get<LinePrefix>(format_).append_to(console_text_, time_);
        if (piece.part > 1) console_text_ += "(part " + std::to_string(piece.part) + ") ";
    }
    console_text_ += piece.text.substr(goes_on ? shown : 0);
    if (piece.ends_line) console_text_ += '\n';
    console_.set_line_owner(targets_.console, piece.ends_line ? nullptr : this);
}

void StreamSink::write_out() {
    if (targets_.console >= 0) console_.write(targets_.console, console_text_);
    if (targets_.file && !file_text_.empty()) targets_.file->write(file_text_);
    if (targets_.filtered_file) targets_.filtered_file->write(filtered_text_);
    console_text_.clear();
    file_text_.clear();
    filtered_text_.clear();
}

bool StreamSink::has_unseen() const {
    const bool is_shown = targets_.console >= 0 || std::holds_alternative<JsonLine>(format_);
    return is_shown && splitter_.unfinished().text.size() > shown_bytes_;
}

/// A line that stays unfinished (a prompt, a progress bar, dots printed one by one) is shown after
/// a while.
void StreamSink::watch_unfinished_line() {
    if (is_watching_ || !has_unseen()) return;
    is_watching_ = true;
    timer_.expires_after(line_timeout_);
    timer_.async_wait([self = weak_from_this()](const boost::system::error_code& ec) {
        const auto sink = self.lock();
        if (ec || !sink) return;
        sink->is_watching_ = false;
        const bool may_go_on =
            std::exchange(sink->is_fresh_, false) || sink->announced_ > 0 || sink->is_paused_;
        if (!may_go_on) sink->show_unfinished_line();
        sink->watch_unfinished_line();
    });
}

void StreamSink::show_unfinished_line() {
    if (!has_unseen()) return;
    if (std::holds_alternative<JsonLine>(format_)) {
        // A JSON object must be whole, so the rest of the line follows in the next object.
        time_ = utc_time();
        handle(*splitter_.flush());
    } else {
        time_ = time_of_day();
        const auto piece = splitter_.unfinished();
        add_to_console(piece);
        shown_bytes_ = piece.text.size();
    }
    write_out();
}

}  // namespace ddprun::agent
