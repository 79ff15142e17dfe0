// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_request.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddprun::server {
namespace {

std::optional<int> hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return std::nullopt;
}

/// "%41+b" -> "A b"; a percent sign without two hexadecimal digits is kept.
std::string decoded(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            const auto high = hex_digit(text[i + 1]);
            const auto low = hex_digit(text[i + 2]);
            if (high && low) {
                result += static_cast<char>(*high * 16 + *low);
                i += 2;
                continue;
            }
        }
        result += text[i] == '+' ? ' ' : text[i];
    }
    return result;
}

/// Splits at the first `separator`; the second part is empty when there is none.
std::pair<std::string_view, std::string_view> split(std::string_view text, char separator) {
    const auto at = text.find(separator);
    if (at == std::string_view::npos) return {text, {}};
    return {text.substr(0, at), text.substr(at + 1)};
}

HttpHead read_request_line(std::string_view line) {
    const auto [method, after_method] = split(line, ' ');
    const auto [target, version] = split(after_method, ' ');
    if (!version.starts_with("HTTP/1.")) return HttpRefusal{400, "not an HTTP/1.1 request"};
    const bool is_printable =
        std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c != '\x7f'; });
    if (target.empty() || target.front() != '/' || !is_printable)
        return HttpRefusal{400, "not a path"};
    if (method != "GET" && method != "HEAD") return HttpRefusal{405, "only GET and HEAD"};

    HttpRequest request;
    request.method = method == "GET" ? HttpRequest::Method::get : HttpRequest::Method::head;
    auto [path, query] = split(target, '?');
    request.path = path;
    while (!query.empty()) {
        const auto [pair, rest] = split(query, '&');
        const auto [name, value] = split(pair, '=');
        if (!name.empty()) request.query.emplace(decoded(name), decoded(value));
        query = rest;
    }
    return request;
}

/// RFC 6750, section 2.1; empty: not a bearer's.
std::string_view bearer_token(std::string_view value) {
    const auto [scheme, token] = split(value, ' ');
    return equal_but_for_case(scheme, "bearer") ? trimmed(token) : std::string_view{};
}

/// `lines` are the header lines. Of fields with the same name the first with a value counts.
void read_fields(std::string_view lines, HttpRequest& request) {
    const auto keep = [](std::string& field, std::string_view value) {
        if (field.empty()) field = value;
    };
    while (!lines.empty()) {
        const auto [line, rest] = split(lines, '\n');
        if (trimmed(line).empty()) break;
        const auto [name, text] = split(line, ':');
        const auto value = trimmed(text);
        if (equal_but_for_case(name, "authorization")) keep(request.token, bearer_token(value));
        if (equal_but_for_case(name, "host")) keep(request.host, value);
        if (equal_but_for_case(name, "if-none-match")) keep(request.known_etag, value);
        lines = rest;
    }
}

}  // namespace

bool equal_but_for_case(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) {
        return lower(x) == lower(y);
    });
}

HttpHead read_http_head(std::string_view bytes) {
    // Lines end in CRLF; a bare LF is accepted, as RFC 9112 allows.
    const auto head = bytes.substr(0, limits::max_http_header_bytes);
    const bool is_complete = head.find("\r\n\r\n") != std::string_view::npos ||
                             head.find("\n\n") != std::string_view::npos;
    if (!is_complete) {
        if (bytes.size() >= limits::max_http_header_bytes)
            return HttpRefusal{400, "header too long"};
        return HttpNeedsMore{};
    }
    auto [line, fields] = split(head, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    auto result = read_request_line(line);
    if (auto* request = std::get_if<HttpRequest>(&result)) read_fields(fields, *request);
    return result;
}

}  // namespace ddprun::server
