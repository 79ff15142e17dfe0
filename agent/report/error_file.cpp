// SPDX-License-Identifier: Apache-2.0
#include "agent/report/error_file.hpp"

#include "agent/report/printable.hpp"
#include "rendezvous/base/limits.hpp"

#include <nlohmann/json.hpp>

#include <charconv>

namespace ddprun::agent {
namespace {

using nlohmann::json;

/// The beginning of a message of the SDK's PeerLost (ddprun/error.hpp).
constexpr std::string_view peer_lost = "PeerLost";

/// The parser is recursive, so the nesting of a worker's file must be limited.
bool is_too_deep(std::string_view text) {
    int depth = 0;
    bool is_in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (is_in_string) {
            if (c == '\\') ++i;
            if (c == '"') is_in_string = false;
        } else if (c == '"') {
            is_in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > limits::max_json_depth) return true;
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    return false;
}

/// The timestamps of both forms, as torch and related programs write them: 17, 17.5, "17".
std::optional<std::int64_t> time_at(const json& object) {
    constexpr std::int64_t latest = 253'402'300'799;
    const auto found = object.find("timestamp");
    if (found == object.end()) return std::nullopt;
    double seconds = -1;
    if (found->is_number()) seconds = found->get<double>();
    if (found->is_string()) {
        const auto& text = found->get_ref<const std::string&>();
        const auto end = text.data() + text.size();
        if (std::from_chars(text.data(), end, seconds).ptr != end) return std::nullopt;
    }
    if (!(seconds > 0) || seconds > static_cast<double>(latest)) return std::nullopt;
    return static_cast<std::int64_t>(seconds);
}

/// The last lines, since the end of a call stack shows what happened.
std::string last_part(std::string text, std::size_t most_bytes) {
    if (text.size() <= most_bytes) return text;
    auto start = text.size() - most_bytes;
    const auto line_end = text.find('\n', start);
    if (line_end != std::string::npos && line_end + 1 < text.size()) start = line_end + 1;
    return "...\n" + text.substr(start);
}

std::string text_at(const json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_string()) return {};
    return found->get<std::string>();
}

}  // namespace

std::optional<ErrorReport> parse_error_file(std::string_view text) {
    if (text.size() > limits::max_error_file_bytes || is_too_deep(text)) return std::nullopt;
    const auto document = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object() || !document.contains("message")) return std::nullopt;

    const auto& message = document.at("message");
    if (!message.is_string() && !message.is_object()) return std::nullopt;
    ErrorReport report;
    report.message = shortened(
        message.is_string() ? message.get<std::string>() : text_at(message, "message"),
        limits::max_failure_message_bytes);
    report.is_secondary = report.message.starts_with(peer_lost);
    if (message.is_string()) {
        report.unix_time = time_at(document);
        return report;
    }
    const auto extra = message.find("extraInfo");
    if (extra != message.end() && extra->is_object()) {
        report.details =
            last_part(text_at(*extra, "py_callstack"), limits::max_failure_details_bytes);
        report.unix_time = time_at(*extra);
    }
    if (report.message.empty() && report.details.empty()) return std::nullopt;
    return report;
}

}  // namespace ddprun::agent
