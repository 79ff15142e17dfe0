// SPDX-License-Identifier: Apache-2.0
#include "agent/report/goodput_text.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;
using control::GoodputPhase;

TEST_CASE("the time of a job is shown by the shares of its phases") {
    control::Goodput goodput;
    goodput[GoodputPhase::productive] = 2h + 5min;
    CHECK(goodput_text(goodput) == "2h05m: productive 100.0 %");
    goodput[GoodputPhase::redone] = 97s;
    goodput[GoodputPhase::first_step] = 45s;
    goodput[GoodputPhase::down] = 300s;
    // Below a twentieth of a percent.
    goodput[GoodputPhase::forming] = 3s;
    CHECK(
        goodput_text(goodput) ==
        "2h12m: productive 94.4 %, redone 1.2 %, first step 0.6 %, down 3.8 %");
}

TEST_CASE("short and long jobs are shown in units of their own") {
    control::Goodput goodput;
    goodput[GoodputPhase::unmeasured] = 8'440ms;
    CHECK(goodput_text(goodput) == "8.4 s: unmeasured 100.0 %");
    goodput[GoodputPhase::unmeasured] = 785s;
    CHECK(goodput_text(goodput) == "13m05s: unmeasured 100.0 %");
    goodput[GoodputPhase::unmeasured] = 100h;
    CHECK(goodput_text(goodput) == "100h00m: unmeasured 100.0 %");
}

TEST_CASE("a job is measured when a step was reported") {
    control::Goodput goodput;
    goodput[GoodputPhase::unmeasured] = 1h;
    goodput[GoodputPhase::saving] = 1s;
    CHECK_FALSE(is_measured(goodput));
    goodput[GoodputPhase::redone] = 1s;
    CHECK(is_measured(goodput));
}
