// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/log.hpp"

#include "rendezvous/base/json_text.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/wall_time.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace ddprun::log {
namespace {

constexpr std::array<std::pair<Level, std::string_view>, 5> levels{{
    {Level::trace, "trace"},
    {Level::debug, "debug"},
    {Level::info, "info"},
    {Level::warning, "warning"},
    {Level::error, "error"},
}};

std::atomic<Level> threshold{Level::warning};

using Sink = std::function<void(std::string)>;

struct SharedSink {
    std::mutex mutex;
    std::shared_ptr<const Sink> sink;
    /// The fields that every JSON line has; null: lines are text.
    std::shared_ptr<const std::string> json_common;
};

// Never destroyed: another thread may still log while the process exits.
SharedSink& shared_sink() {
    static auto* shared = new SharedSink;
    return *shared;
}

void write_to_stderr(const std::string& line) {
    std::string_view rest = line;
    while (!rest.empty()) {
        const auto written = ::write(STDERR_FILENO, rest.data(), rest.size());
        if (written <= 0) return;
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
}

std::string escaped_bytes(std::string_view bytes) {
    std::string result;
    for (const char c : bytes) {
        std::array<char, 8> escape{};
        std::snprintf(
            escape.data(),
            escape.size(),
            "\\x%02x",
            static_cast<unsigned>(static_cast<unsigned char>(c)));
        result += escape.data();
    }
    return result;
}

/// Cuts a field, since a peer's text may be as long as a message and a log line must be shorter.
std::string cut(std::string_view text) {
    constexpr std::string_view mark = "...";
    if (text.size() <= limits::max_log_field_bytes) return std::string{text};
    const auto part = text.substr(0, limits::max_log_field_bytes - mark.size());
    return std::string{part.substr(0, whole_character_bytes(part))} + std::string{mark};
}

std::string value_text(std::string_view text) {
    const bool is_plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return std::isgraph(static_cast<unsigned char>(c)) != 0 && c != '"' && c != '=';
    });
    if (is_plain) return std::string{text};
    std::string result = "\"";
    while (!text.empty()) {
        const char c = text.front();
        const auto unprintable = c == '\t' ? 1 : unprintable_bytes(text);
        if (unprintable > 0) {
            result += escaped_bytes(text.substr(0, unprintable));
        } else if (c == '\n') {
            result += "\\n";
        } else {
            if (c == '"' || c == '\\') result += '\\';
            result += c;
        }
        text.remove_prefix(std::max<std::size_t>(unprintable, 1));
    }
    return result + '"';
}

std::string describe_double(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", value);
    return text.data();
}

std::string words_of(std::string_view event, Fields fields) {
    std::string words{event};
    for (const auto& field : fields) {
        words += ' ';
        words += describe(field);
    }
    return words;
}

std::string text_line(Level level, std::string_view event, Fields fields) {
    return time_of_day() + ' ' + std::string{level_name(level)} +
           " ddprun: " + words_of(event, fields) + '\n';
}

/// Appends `,"name":value`.
void append_json(std::string& out, const Field& field) {
    out += ',';
    append_json_string(out, field.name);
    out += ':';
    if (const auto* number = std::get_if<std::int64_t>(&field.value))
        out += std::to_string(*number);
    if (const auto* truth = std::get_if<bool>(&field.value)) out += *truth ? "true" : "false";
    if (const auto* words = std::get_if<std::string>(&field.value))
        append_json_string(out, cut(*words));
    if (const auto* number = std::get_if<double>(&field.value))
        out += std::isfinite(*number) ? describe_double(*number) : "null";
}

std::string json_line(
    const std::string& common, Level level, std::string_view event, Fields fields) {
    std::string line = "{\"time\":\"" + utc_time() + '"' + common;
    append_json(line, {"stream", "ddprun"});
    append_json(line, {"level", level_name(level)});
    append_json(line, {"event", event});
    for (const auto& field : fields)
        append_json(line, field);
    append_json(line, {"message", words_of(event, fields)});
    return line + "}\n";
}

}  // namespace

std::optional<Level> parse_level(std::string_view name) {
    std::string lower{name};
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
    });
    if (lower == "warn") return Level::warning;
    if (lower == "critical" || lower == "fatal") return Level::error;
    for (const auto& [level, known] : levels)
        if (known == lower) return level;
    return std::nullopt;
}

std::string_view level_name(Level level) {
    return levels[static_cast<std::size_t>(level)].second;
}

void set_level(Level level) {
    threshold = level;
}
bool is_enabled(Level level) {
    return level >= threshold.load();
}

void set_sink(std::function<void(std::string line)> sink) {
    auto next = sink ? std::make_shared<const Sink>(std::move(sink)) : nullptr;
    const std::scoped_lock lock(shared_sink().mutex);
    shared_sink().sink = std::move(next);
}

std::string describe(const Field& field) {
    std::string text{field.name};
    text += '=';
    if (const auto* number = std::get_if<std::int64_t>(&field.value))
        text += std::to_string(*number);
    if (const auto* number = std::get_if<double>(&field.value)) text += describe_double(*number);
    if (const auto* truth = std::get_if<bool>(&field.value)) text += *truth ? "true" : "false";
    if (const auto* words = std::get_if<std::string>(&field.value)) text += value_text(cut(*words));
    return text;
}

void use_json(Fields common) {
    std::string text;
    for (const auto& field : common)
        append_json(text, field);
    const std::scoped_lock lock(shared_sink().mutex);
    shared_sink().json_common = std::make_shared<const std::string>(std::move(text));
}

void use_text() {
    const std::scoped_lock lock(shared_sink().mutex);
    shared_sink().json_common = nullptr;
}

void write(Level level, std::string_view event, Fields fields) {
    if (!is_enabled(level)) return;
    std::shared_ptr<const Sink> sink;
    std::shared_ptr<const std::string> json_common;
    {
        const std::scoped_lock lock(shared_sink().mutex);
        sink = shared_sink().sink;
        json_common = shared_sink().json_common;
    }
    auto line = json_common ? json_line(*json_common, level, event, fields)
                            : text_line(level, event, fields);
    if (sink)
        (*sink)(std::move(line));
    else
        write_to_stderr(line);
}

}  // namespace ddprun::log
