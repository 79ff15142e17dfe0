// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/user_numbers.hpp"

#include <doctest/doctest.h>

using namespace ddprun;

TEST_CASE("the number of users without a number means no one user") {
    constexpr const char* all = "         0          0 4294967295\n";
    constexpr const char* some = "         0     100000      65536\n";
    CHECK(means_one_user(65'534, {all, "65534\n"}));
    CHECK_FALSE(means_one_user(65'534, {some, "65534\n"}));
    CHECK(means_one_user(1000, {some, "65534\n"}));
    CHECK(means_one_user(0, {some, "65534\n"}));
    CHECK(means_one_user(65'534, {some, "1234\n"}));
    CHECK_FALSE(means_one_user(1234, {some, "1234\n"}));
    CHECK(means_one_user(65'534, {"0 0 1000\n1000 1000 4294966295\n", "65534\n"}));
    // Unreadable facts count as the usual ones.
    CHECK_FALSE(means_one_user(65'534, {"", ""}));
    CHECK(means_one_user(1000, {"", ""}));
    CHECK_FALSE(means_one_user(65'534, {"0 0 many\n", "x"}));
}
