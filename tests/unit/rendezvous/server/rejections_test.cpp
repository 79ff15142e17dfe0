// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/rejections.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

namespace ddprun::server {
namespace {

TEST_CASE("each address is worth one line and every connection is counted") {
    Rejections rejections;

    CHECK(rejections.add("10.0.0.2:51234"));
    CHECK_FALSE(rejections.add("10.0.0.2:51235"));
    CHECK(rejections.add("[fe80::1]:9"));
    CHECK_FALSE(rejections.add("[fe80::1]:10"));

    CHECK(rejections.count() == 4);
}

TEST_CASE("a flood of addresses ends in silence and not in memory") {
    Rejections rejections;
    std::size_t lines = 0;

    for (int i = 0; i < 5000; ++i)
        lines += rejections.add("10.0." + std::to_string(i) + ":1") ? 1 : 0;

    CHECK(lines == limits::max_remembered_peers);
    CHECK(rejections.count() == 5000);
}

}  // namespace
}  // namespace ddprun::server
