// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/caller_lines.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace ddprun;
using namespace ddprun::server;
using namespace std::chrono_literals;

TEST_CASE("lines about callers come at a bounded rate, and what is left out is counted") {
    CallerLines lines;
    Instant now{1h};
    const auto taken = [&](int count) {
        int sum = 0;
        for (int i = 0; i < count; ++i)
            sum += lines.take(now) ? 1 : 0;
        return sum;
    };
    CHECK(taken(1'000) == limits::max_caller_lines_at_once);
    CHECK(lines.take_left_out() == 1'000U - limits::max_caller_lines_at_once);
    CHECK(lines.take_left_out() == 0);

    now += 1s;
    CHECK(taken(1'000) == limits::caller_lines_per_second);
    // After a long time without lines the burst is no longer than at first.
    now += 24h;
    CHECK(taken(1'000) == limits::max_caller_lines_at_once);
}
