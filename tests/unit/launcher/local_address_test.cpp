// SPDX-License-Identifier: Apache-2.0
#include "launcher/local_address.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::launcher;

namespace {

const std::vector<InterfaceAddress> interfaces{
    {"lo", "127.0.0.1"},
    {"lo", "::1"},
    {"ib0", "fd00::5"},
    {"ib0", "10.1.2.3"},
    {"eth0", "192.168.7.9"},
    {"six0", "fd00:1::7"},
};

std::string read(std::string_view text) {
    const auto address = resolve_local_address(text, interfaces);
    return address ? *address : address.error().context;
}

}  // namespace

TEST_CASE("an address or a name is taken as it is") {
    CHECK(read("10.9.9.9") == "10.9.9.9");
    CHECK(read(" node7.cluster ") == "node7.cluster");
    CHECK(read("[fd00::5]") == "fd00::5");
}

TEST_CASE("an interface stands for its IPv4 address, else for its first") {
    CHECK(read("ib0") == "10.1.2.3");
    CHECK(read("six0") == "fd00:1::7");
}

TEST_CASE("a network stands for this machine's address in it") {
    CHECK(read("10.0.0.0/8") == "10.1.2.3");
    CHECK(read("192.168.7.0/30").starts_with("'192.168.7.0/30': no interface of this machine"));
    CHECK(read("192.168.7.8/29") == "192.168.7.9");
    CHECK(read("fd00:1::/32") == "fd00:1::7");
    CHECK(read("0.0.0.0/0") == "127.0.0.1");
}

TEST_CASE("anything else says what is accepted") {
    for (const auto* text : {"", "a b", "10.0.0.0/33", "10.0.0/8", "x/8", "10.0.0.0/"}) {
        CAPTURE(text);
        CHECK(read(text).find("accepted are an address, a host name") != std::string::npos);
    }
}
