// SPDX-License-Identifier: Apache-2.0
#include "agent/output/line_splitter.hpp"

#include "rendezvous/base/json_text.hpp"
#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::agent {

void LineSplitter::append(std::string_view bytes) {
    buffer_.erase(0, std::exchange(at_, 0));
    buffer_ += bytes;
}

void LineSplitter::skip_second_half() {
    if (!has_ended_by_return_ || rest().empty()) return;
    has_ended_by_return_ = false;
    if (rest().front() == '\n') ++at_;
}

std::optional<LinePiece> LineSplitter::next() {
    skip_second_half();
    for (;;) {
        const auto text = rest();
        const auto window = text.substr(0, limits::max_line_bytes + 1);
        const auto end = std::min(window.find('\n'), window.size());
        const auto size = std::min(window.substr(0, end).find('\r'), end);
        if (size == window.size()) {
            if (size <= limits::max_line_bytes) return std::nullopt;
            return take(whole_character_bytes(text.substr(0, limits::max_line_bytes)), 0, false);
        }
        const bool is_return = text[size] == '\r';
        const bool is_nothing = size == 0 && part_ == 1;
        if (!is_return || !is_nothing) {
            has_ended_by_return_ = is_return;
            const auto piece = take(size, 1, true);
            skip_second_half();
            return piece;
        }
        // CR LF is an empty line, a CR alone none at all; the difference may still be on its way.
        if (text.size() == 1) return std::nullopt;
        if (text[1] == '\n') return take(0, 2, true);
        ++at_;
    }
}

LinePiece LineSplitter::take(std::size_t size, std::size_t separator_size, bool ends_line) {
    const LinePiece piece{rest().substr(0, size), part_, ends_line};
    at_ += size + separator_size;
    part_ = ends_line ? 1 : part_ + 1;
    return piece;
}

LinePiece LineSplitter::unfinished() const {
    const auto text = rest() == "\r" ? std::string_view{} : rest();
    return {text.substr(0, whole_character_bytes(text)), part_, false};
}

std::optional<LinePiece> LineSplitter::flush() {
    const auto size = unfinished().text.size();
    if (size == 0) return std::nullopt;
    return take(size, 0, false);
}

std::optional<LinePiece> LineSplitter::finish() {
    if (rest() == "\r") ++at_;
    if (rest().empty() && part_ == 1) return std::nullopt;
    return take(rest().size(), 0, true);
}

}  // namespace ddprun::agent
