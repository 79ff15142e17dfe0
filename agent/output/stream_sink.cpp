// SPDX-License-Identifier: Apache-2.0
#include "agent/output/stream_sink.hpp"

#include "agent/output/console.hpp"
#include "agent/output/log_file.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/wall_time.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

bool has_one_of(std::string_view text, const std::vector<std::string>& needles) {
    return std::any_of(needles.begin(), needles.end(), [&](const std::string& needle) {
        return text.find(needle) != std::string_view::npos;
    });
}

}  // namespace

StreamSink::StreamSink(
    boost::asio::io_context& queue, Console& console, Targets targets, Format format)
    : console_(console),
      targets_(std::move(targets)),
      format_(std::move(format)),
      patience_(queue) {}

void StreamSink::take(std::string_view bytes) {
    --announced_;
    const bool is_json = std::holds_alternative<JsonLine>(format_);
    if (targets_.file && !is_json) targets_.file->write(bytes);
    if (std::holds_alternative<Raw>(format_)) {
        if (targets_.console >= 0) console_.write(targets_.console, bytes);
        return;
    }
    splitter_.append(bytes);
    is_fresh_ = is_watching_;
    handle_lines();
    write_out();
    watch_partial_line();
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

/// A line that came in parts is put together again, unless somebody else wrote in between.
void StreamSink::add_to_console(const LinePiece& piece) {
    const auto* owner = console_.line_owner(targets_.console);
    const bool goes_on = piece.part > 1 && owner == this;
    if (!goes_on) {
        if (piece.part > 1 && piece.text.empty()) return;  // the end of a line already ended
        if (owner != nullptr) console_text_ += '\n';
        std::get<LinePrefix>(format_).append_to(console_text_, time_);
        if (piece.part > 1) console_text_ += "(part " + std::to_string(piece.part) + ") ";
    }
    console_text_ += piece.text;
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

/// A prompt, or dots that are printed one by one: what nobody goes on with is shown.
void StreamSink::watch_partial_line() {
    if (is_watching_ || !splitter_.has_partial()) return;
    is_watching_ = true;
    patience_.expires_after(limits::partial_line_patience);
    patience_.async_wait([self = weak_from_this()](const boost::system::error_code& ec) {
        const auto sink = self.lock();
        if (ec || !sink) return;
        sink->is_watching_ = false;
        const bool may_go_on =
            std::exchange(sink->is_fresh_, false) || sink->announced_ > 0 || sink->is_paused_;
        if (!may_go_on) {
            sink->time_ =
                std::holds_alternative<JsonLine>(sink->format_) ? utc_time() : time_of_day();
            if (const auto piece = sink->splitter_.flush()) sink->handle(*piece);
            sink->write_out();
        }
        sink->watch_partial_line();
    });
}

}  // namespace ddprun::agent
