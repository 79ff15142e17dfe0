// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_request.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace ddprun::server {
namespace {

using Method = HttpRequest::Method;

int refused_with(std::string_view bytes) {
    const auto head = read_http_head(bytes);
    const auto* refusal = std::get_if<HttpRefusal>(&head);
    return refusal == nullptr ? 0 : refusal->status;
}

TEST_CASE("a request is its method, path and query") {
    CHECK(
        read_http_head("GET /status HTTP/1.1\r\nHost: x\r\n\r\n") ==
        HttpHead{HttpRequest{Method::get, "/status", {}, {}, "x"}});
    CHECK(
        read_http_head("HEAD /status?job=my%20job&from=1000 HTTP/1.0\r\n\r\n") ==
        HttpHead{HttpRequest{Method::head, "/status", {{"job", "my job"}, {"from", "1000"}}}});
    CHECK(
        read_http_head("GET /?a+b=%zz&&=x&c&a%20b=2 HTTP/1.1\n\n") ==
        HttpHead{HttpRequest{Method::get, "/", {{"a b", "%zz"}, {"c", ""}}}});
}

TEST_CASE("a request split anywhere is the same request") {
    const std::string_view whole = "GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n";
    for (std::size_t length = 0; length < whole.size(); ++length) {
        CAPTURE(length);
        CHECK(read_http_head(whole.substr(0, length)) == HttpHead{HttpNeedsMore{}});
    }
    CHECK(read_http_head(whole) == HttpHead{HttpRequest{Method::get, "/metrics", {}}});
}

TEST_CASE("a token is that of the first bearer, however the field is written") {
    const auto token_in = [](const std::string& fields) {
        const auto head = read_http_head("GET /status HTTP/1.1\r\n" + fields + "\r\n");
        return std::get<HttpRequest>(head).token;
    };
    CHECK(token_in("Authorization: Bearer abc\r\n") == "abc");
    CHECK(token_in("Host: x\r\nauthorization:bearer  abc \r\nAccept: */*\r\n") == "abc");
    CHECK(token_in("AUTHORIZATION:\tBEARER abc\r\n") == "abc");
    CHECK(token_in("Authorization: Basic abc\r\nAuthorization: Bearer d\r\n") == "d");
    CHECK(token_in("Authorization: Bearer\r\n").empty());
    CHECK(token_in("Authorization: Bearerabc\r\n").empty());
    CHECK(token_in("X-Authorization: Bearer abc\r\n").empty());
    CHECK(token_in("").empty());
    // A body is no field.
    CHECK(token_in("Host: x\r\n\r\nAuthorization: Bearer abc\r\n").empty());
}

TEST_CASE("the host and the known version are those of the first fields of their names") {
    const auto head =
        read_http_head("GET / HTTP/1.1\r\nIF-NONE-MATCH: \"7\"\r\nhost: a:1 \r\nHost: b\r\n\r\n");
    const auto& request = std::get<HttpRequest>(head);
    CHECK(request.host == "a:1");
    CHECK(request.known_etag == "\"7\"");
}

TEST_CASE("what follows the head does not matter") {
    CHECK(
        read_http_head("GET / HTTP/1.1\r\n\r\nGET /again HTTP/1.1\r\n\r\n") ==
        HttpHead{HttpRequest{Method::get, "/", {}}});
}

TEST_CASE("requests that no page answers are refused by their kind") {
    CHECK(refused_with("POST /status HTTP/1.1\r\n\r\n") == 405);
    CHECK(refused_with("BREW /pot HTTP/1.1\r\n\r\n") == 405);
    CHECK(refused_with("GET /status\r\n\r\n") == 400);
    CHECK(refused_with("GET /status HTTP/2\r\n\r\n") == 400);
    CHECK(refused_with("GET status HTTP/1.1\r\n\r\n") == 400);
    CHECK(refused_with("GET  HTTP/1.1\r\n\r\n") == 400);
    CHECK(refused_with("GET /a\tb HTTP/1.1\r\n\r\n") == 400);
    CHECK(refused_with("\r\n\r\n") == 400);
}

TEST_CASE("a header of 8 KiB is read and a longer one refused") {
    const std::string begin = "GET / HTTP/1.1\r\nX: ";
    const std::string end = "\r\n\r\n";
    const auto filling = limits::max_http_header_bytes - begin.size() - end.size();

    CHECK(refused_with(begin + std::string(filling, 'x') + end) == 0);
    CHECK(refused_with(begin + std::string(filling + 1, 'x') + end) == 400);
    CHECK(refused_with(begin + std::string(limits::max_http_header_bytes, 'x')) == 400);
}

}  // namespace
}  // namespace ddprun::server
