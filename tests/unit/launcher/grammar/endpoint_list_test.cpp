// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/endpoint_list.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

/// "a:1 b:2", or what is wrong.
std::string listed(const std::string& text) {
    const auto endpoints = parse_endpoint_list(text, 29'400);
    if (!endpoints) return endpoints.error().context;
    std::string names;
    for (const auto& endpoint : *endpoints)
        names += (names.empty() ? "" : " ") + endpoint.to_string();
    return names;
}

}  // namespace

TEST_CASE("endpoints are read with and without ports, in their order") {
    CHECK(listed("b:2,a:1") == "b:2 a:1");
    CHECK(listed("a, b:7 ,[fe80::1]") == "a:29400 b:7 [fe80::1]:29400");
    CHECK(listed("a:1,a:2") == "a:1 a:2");
    CHECK(listed("a:0") == "a:0");
    CHECK(listed("") == "localhost:29400");
    CHECK(listed("a,b,c,d,e,f,g,h").ends_with("h:29400"));
}

TEST_CASE("a list that names no place, or one twice, is refused with what is wrong") {
    const std::string nothing = ": there is nothing between two commas, or at an end";
    for (const std::string text : {"a,,b", ",a", "a,", ",", "a, ,b"})
        CHECK(listed(text) == "'" + text + "'" + nothing);
    CHECK(listed("a:0,b") == "'a:0,b': in a list each endpoint needs a port of its own, not 0");
    CHECK(listed("a,b,a:29400") == "'a,b,a:29400': a:29400 is named twice");
    CHECK(listed("a,b,c,d,e,f,g,h,i").ends_with("': accepted are at most 8 endpoints"));
    CHECK(listed("a,b:x").starts_with("endpoint 'b:x': "));
    CHECK(listed("http://a,b").starts_with("endpoint 'http://a': "));
}
