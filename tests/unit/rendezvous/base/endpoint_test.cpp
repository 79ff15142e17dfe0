// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/endpoint.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;

namespace {

std::string parsed(std::string_view text) {
    const auto endpoint = parse_endpoint(text, 29400);
    return endpoint ? endpoint->to_string() : endpoint.error().context;
}

}  // namespace

TEST_CASE("an endpoint is a host with an optional port, and the port has a default") {
    CHECK(parsed("node1") == "node1:29400");
    CHECK(parsed("node1:1234") == "node1:1234");
    CHECK(parsed("  10.0.0.1:0 ") == "10.0.0.1:0");
    CHECK(parsed("") == "localhost:29400");
}

TEST_CASE("an IPv6 address stands in brackets, or bare without a port") {
    CHECK(parsed("[fe80::1]:1234") == "[fe80::1]:1234");
    CHECK(parsed("[::1]") == "[::1]:29400");
    CHECK(parsed("fe80::1:2") == "[fe80::1:2]:29400");
    CHECK(parsed("::1:29477") == "[::1]:29477");
    CHECK(parsed("1:2:3:4:5:6:7:8:29400") == "[1:2:3:4:5:6:7:8]:29400");
    CHECK(parsed("fe80::1%eth0") == "[fe80::1%eth0]:29400");
}

TEST_CASE("a wrong endpoint is named with what is accepted") {
    CHECK(
        parsed("node1:99999") ==
        "endpoint 'node1:99999': the port must be a number between 0 and 65535; accepted are host, "
        "host:port and [ipv6]:port");
    for (const auto* text :
         {"node1:", "node1:1x", ":1", "[::1", "[::1]x", "no de:1", "a/b", "a:b:1", "1::2::3"})
        CHECK_FALSE(parse_endpoint(text, 1).has_value());
}

TEST_CASE("a loopback address is recognised in its mapped form too") {
    CHECK(is_loopback("127.0.0.53"));
    CHECK(is_loopback("::ffff:127.0.0.1"));
    CHECK(is_loopback("::1"));
    CHECK_FALSE(is_loopback("10.0.0.1"));
    CHECK(unwrap_mapped("::ffff:10.0.0.1") == "10.0.0.1");
    CHECK(unwrap_mapped("fe80::1") == "fe80::1");
}
