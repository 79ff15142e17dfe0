// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/network.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::launcher;

namespace {

const std::vector<InterfaceAddress> interfaces{
    {"lo", "127.0.0.1"},
    {"ib0", "fd00::5"},
    {"ib0", "10.1.2.3"},
    {"eth0", "192.168.7.9"},
    {"lo", "::1"},
    {"six0", "fd00:1::7"},
};

std::string read(std::string_view text) {
    const auto address = resolve_local_address(
        text, interfaces, [](const std::string& name) { return name == "node7"; });
    return address ? *address : address.error().context;
}

}  // namespace

TEST_CASE("an address or a name is taken as it is") {
    CHECK(read("10.9.9.9") == "10.9.9.9");
    CHECK(read(" node7.cluster ") == "node7.cluster");
    CHECK(read("node7") == "node7");
    CHECK(read("[fd00::5]") == "fd00::5");
    CHECK(read("fe80::1%eth0") == "fe80::1%eth0");
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

TEST_CASE("a word that is no interface and no host is refused, and the interfaces are named") {
    CHECK(
        read("ib1") ==
        "'ib1': neither an interface nor a host name known here; accepted are an address, a host "
        "name, an interface and a network like 10.0.0.0/8; the interfaces here are lo (127.0.0.1, "
        "::1), ib0 (fd00::5, 10.1.2.3), eth0 (192.168.7.9), six0 (fd00:1::7)");
}

TEST_CASE("what was meant as an address is not taken for a name") {
    for (const auto* text : {"10.0.0.256", "10.0.0", "fd00::x", "node7:29500", "10.0.0.1:80"}) {
        CAPTURE(text);
        CHECK(read(text).find("': not an address; accepted are") != std::string::npos);
    }
}

TEST_CASE("anything else says what is accepted") {
    for (const auto* text : {"", "a b", "10.0.0.0/33", "10.0.0/8", "x/8", "10.0.0.0/"}) {
        CAPTURE(text);
        CHECK(read(text).find("accepted are an address, a host name") != std::string::npos);
    }
}
