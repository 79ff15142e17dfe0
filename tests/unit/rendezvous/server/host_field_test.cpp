// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/host_field.hpp"

#include <doctest/doctest.h>

namespace ddprun::server {

TEST_CASE(
    "a machine is named by an address, localhost or its name, and by no name of another site") {
    const auto names = [](std::string_view host) { return names_this_machine(host, "node7"); };
    CHECK(names(""));
    CHECK(names("127.0.0.1:29500"));
    CHECK(names("10.1.2.3"));
    CHECK(names("[::1]:29500"));
    CHECK(names("LocalHost:29500"));
    CHECK(names("localhost."));
    CHECK(names("NODE7:29500"));

    CHECK_FALSE(names("evil.example:29500"));
    CHECK_FALSE(names("localhost.evil.example"));
    CHECK_FALSE(names("node7.evil.example"));
    CHECK_FALSE(names("127.0.0.1.evil.example"));
    CHECK_FALSE(names("[evil.example]:29500"));
    CHECK_FALSE(names("[::1"));
    CHECK_FALSE(names(":29500"));
    CHECK_FALSE(names_this_machine(":29500", ""));
}

}  // namespace ddprun::server
