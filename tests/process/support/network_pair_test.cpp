// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/network_pair.hpp"

#include "tests/process/support/running.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("two hosts on one machine: each sees the other, and a cut cable") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    NetworkPair hosts;
    const auto connect = [&] {
        Running::Options options;
        options.network_namespace = hosts.a().name;
        options.arguments = {
            "-c",
            "import socket, sys\nsocket.create_connection((sys.argv[1], 1), 1)",
            hosts.b().address};
        Running python("python3", options);
        python.wait_for_exit();
        return python.err();
    };

    // No process listens: a refusal is an answer.
    CHECK(contains(connect(), "Connection refused"));
    hosts.cut();
    CHECK_FALSE(contains(connect(), "Connection refused"));
    hosts.heal();
    CHECK(contains(connect(), "Connection refused"));
}
