// SPDX-License-Identifier: Apache-2.0
#include "agent/report/error_file.hpp"

#include "rendezvous/base/limits.hpp"

#include <nlohmann/json.hpp>

namespace ddprun::agent {
namespace {

using nlohmann::json;

/// How a message begins when the error was the SDK's PeerLost (ddprun/error.hpp).
constexpr std::string_view peer_lost = "PeerLost";

/// The parser recurses into what it builds, so a worker's file must not be arbitrarily deep.
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
    report.message = message.is_string() ? message.get<std::string>() : text_at(message, "message");
    report.is_consequence = report.message.starts_with(peer_lost);
    if (message.is_string()) return report;
    const auto extra = message.find("extraInfo");
    if (extra != message.end() && extra->is_object())
        report.details = text_at(*extra, "py_callstack");
    if (report.message.empty() && report.details.empty()) return std::nullopt;
    return report;
}

}  // namespace ddprun::agent
