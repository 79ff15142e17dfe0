// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/network_pair.hpp"

#include "tests/process/support/network_hosts.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// No process listens there: a refusal is an answer.
bool answers(const NetworkPair::Host& to, const NetworkPair::Host& from) {
    Running::Options options;
    options.network_namespace = from.name;
    options.arguments = {
        "-c", "import socket, sys\nsocket.create_connection((sys.argv[1], 1), 1)", to.address};
    Running python("python3", options);
    python.wait_for_exit();
    return contains(python.err(), "Connection refused");
}

}  // namespace

TEST_CASE("two hosts on one machine: each sees the other, and a cut cable") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair hosts;
    CHECK(answers(hosts.b(), hosts.a()));
    hosts.cut();
    CHECK_FALSE(answers(hosts.b(), hosts.a()));
    hosts.heal();
    CHECK(answers(hosts.b(), hosts.a()));
}

TEST_CASE("three hosts on one machine: the cable of one is cut, and the others see each other") {
    if (const auto reason = NetworkHosts::why_not(); !reason.empty()) return skip(reason);
    const NetworkHosts hosts(3);
    CHECK(answers(hosts[1], hosts[0]));
    CHECK(answers(hosts[2], hosts[1]));
    hosts.cut(0);
    CHECK_FALSE(answers(hosts[1], hosts[0]));
    CHECK(answers(hosts[2], hosts[1]));
    hosts.heal(0);
    CHECK(answers(hosts[1], hosts[0]));
}

TEST_CASE("a program on a host of its own sees the name of that host") {
    if (const auto reason = NetworkHosts::why_not(); !reason.empty()) return skip(reason);
    const NetworkHosts hosts(1);
    Running::Options options;
    options.network_namespace = hosts[0].name;
    options.arguments = {"-n"};
    Running outside("uname", options);
    options.host_name = "elsewhere";
    Running inside("uname", options);
    CHECK(inside.wait_for_code() == 0);
    CHECK(inside.out() == "elsewhere\n");
    outside.wait_for_exit();
    CHECK(outside.out() != inside.out());
}
