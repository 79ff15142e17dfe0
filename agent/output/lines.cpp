// SPDX-License-Identifier: Apache-2.0
#include "agent/output/lines.hpp"

#include "rendezvous/base/json_text.hpp"
#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace ddprun::agent {
namespace {

bool is_name_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::optional<std::string> value_of(std::string_view name, const PrefixValues& values) {
    if (name == "role_name") return values.role;
    if (name == "local_rank") return std::to_string(values.local_rank);
    if (name == "rank") return std::to_string(values.rank);
    if (name == "hostname") return values.host;
    return std::nullopt;
}

/// The text after a dollar sign.
struct Macro {
    std::string_view name;
    /// The length of the whole macro, without the dollar; 0: it is no macro.
    std::size_t size = 0;
};

Macro macro_at(std::string_view text) {
    const std::size_t braces = text.starts_with('{') ? 1 : 0;
    const auto inside = text.substr(braces);
    const auto end = std::find_if_not(inside.begin(), inside.end(), is_name_character);
    const auto name = inside.substr(0, static_cast<std::size_t>(end - inside.begin()));
    const bool is_closed = braces == 0 || inside.substr(name.size()).starts_with('}');
    if (name.empty() || !is_closed) return {};
    return {name, name.size() + 2 * braces};
}

}  // namespace

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
        // CR LF is an empty line, a CR alone is none; the LF may still be on its way.
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

LinePrefix::LinePrefix(std::string_view text, const PrefixValues& values) : fixed_(1) {
    for (;;) {
        const auto dollar = text.find('$');
        fixed_.back() += text.substr(0, dollar);
        if (dollar == std::string_view::npos) return;
        text.remove_prefix(dollar + 1);

        const auto macro = macro_at(text);
        const auto value = value_of(macro.name, values);
        if (text.starts_with('$')) {
            fixed_.back() += '$';
            text.remove_prefix(1);
        } else if (macro.name == "time") {
            fixed_.emplace_back();
            text.remove_prefix(macro.size);
        } else if (value) {
            fixed_.back() += *value;
            text.remove_prefix(macro.size);
        } else {
            fixed_.back() += '$';
        }
    }
}

void LinePrefix::append_to(std::string& out, std::string_view time) const {
    for (const auto& part : fixed_) {
        if (&part != &fixed_.front()) out += time;
        out += part;
    }
}

JsonLine::JsonLine(const LineOrigin& origin) {
    origin_ = R"(","run":)";
    append_json_string(origin_, origin.run_id);
    origin_ += R"(,"round":)" + std::to_string(origin.round) + R"(,"host":)";
    append_json_string(origin_, origin.host);
    origin_ += R"(,"rank":)" + std::to_string(origin.rank) + R"(,"stream":)";
    append_json_string(origin_, origin.stream);
}

void JsonLine::append_to(std::string& out, const LinePiece& piece, std::string_view time) const {
    out += R"({"time":")";
    out += time;
    out += origin_;
    if (!piece.is_whole_line()) out += R"(,"part":)" + std::to_string(piece.part);
    if (!piece.ends_line) out += R"(,"continues":true)";
    out += R"(,"message":)";
    append_json_string(out, piece.text);
    out += "}\n";
}

}  // namespace ddprun::agent
