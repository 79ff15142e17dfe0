// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <ctime>
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

std::string time_of_day() {
    timespec moment{};
    clock_gettime(CLOCK_REALTIME, &moment);
    tm parts{};
    localtime_r(&moment.tv_sec, &parts);
    std::array<char, 32> text{};
    std::snprintf(
        text.data(),
        text.size(),
        "%02d:%02d:%02d.%03ld",
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        moment.tv_nsec / 1'000'000);
    return text.data();
}

std::string quoted(std::string_view text) {
    const bool is_plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return std::isgraph(static_cast<unsigned char>(c)) != 0 && c != '"' && c != '=';
    });
    if (is_plain) return std::string{text};
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (c == '\n') {
            result += "\\n";
        } else if (byte < 0x20 || byte == 0x7f) {
            std::array<char, 8> escape{};
            std::snprintf(escape.data(), escape.size(), "\\x%02x", static_cast<unsigned>(byte));
            result += escape.data();
        } else {
            result += c;
        }
    }
    return result + '"';
}

std::string describe_double(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", value);
    return text.data();
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
    if (const auto* words = std::get_if<std::string>(&field.value)) text += quoted(*words);
    return text;
}

void write(Level level, std::string_view event, Fields fields) {
    if (!is_enabled(level)) return;
    auto line = time_of_day() + ' ' + std::string{level_name(level)} + " ddprun: ";
    line += event;
    for (const auto& field : fields) {
        line += ' ';
        line += describe(field);
    }
    line += '\n';

    std::shared_ptr<const Sink> sink;
    {
        const std::scoped_lock lock(shared_sink().mutex);
        sink = shared_sink().sink;
    }
    if (sink)
        (*sink)(std::move(line));
    else
        write_to_stderr(line);
}

}  // namespace ddprun::log
