// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

/// The subset of HTTP/1.1 that a status page needs: the head of one request, which is parsed only
/// once it is complete. Pure; http_connection.hpp feeds it.
namespace ddprun::server {

struct HttpRequest {
    enum class Method : std::uint8_t { get, head };
    Method method = Method::get;
    /// The path without the query, not decoded: "/status".
    std::string path;
    /// Decoded names and values; of two values with the same name the first counts.
    std::map<std::string, std::string> query;
    /// The token of the first `Authorization: Bearer TOKEN`; empty: none.
    std::string token = {};
    /// The first `Host`; empty: none.
    std::string host = {};
    /// The first `If-None-Match`: the version of the page that the caller has; empty: none.
    std::string known_etag = {};

    bool operator==(const HttpRequest&) const = default;
};

/// The request is answered with this status code and reason, then the connection is closed.
struct HttpRefusal {
    int status = 400;
    std::string reason;

    bool operator==(const HttpRefusal&) const = default;
};

/// The head is not complete yet.
struct HttpNeedsMore {
    bool operator==(const HttpNeedsMore&) const = default;
};

using HttpHead = std::variant<HttpNeedsMore, HttpRequest, HttpRefusal>;

/// Reads the head of a request from all bytes received so far. Bodies are not read: a connection on
/// which one is sent is closed with the answer.
HttpHead read_http_head(std::string_view bytes);

/// Letters are ASCII.
bool equal_but_for_case(std::string_view a, std::string_view b);

}  // namespace ddprun::server
