// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/versions.hpp"

#include <doctest/doctest.h>

namespace ddprun::control {
namespace {

TEST_CASE("two ends use the newest version of the protocol that both speak") {
    CHECK(common_version(own_versions()) == 2);
    CHECK(common_version({1}) == 1);
    CHECK(common_version({2, 3}) == 2);
    CHECK(common_version({9, 1, 2}) == 2);
    CHECK(common_version({3, 9}) == 0);
    // An agent of an older release names none.
    CHECK(common_version({}) == 1);
}

}  // namespace
}  // namespace ddprun::control
