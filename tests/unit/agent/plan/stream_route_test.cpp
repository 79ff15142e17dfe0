// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/stream_route.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;

namespace {

RankMask mask(RankRange ranks, int bits) {
    return {ranks, (bits & 1) != 0, (bits & 2) != 0};
}

OutputPlan a_plan() {
    OutputPlan plan;
    plan.log_dir = "/logs";
    return plan;
}

/// "console", "lines" (whole lines on the console), "file", "filtered", in that order.
std::string way(const OutputPlan& plan, Stream stream, int local_rank, int rank_base = 0) {
    const auto route = route_of(plan, stream, local_rank, rank_base + local_rank);
    std::string text;
    if (route.to_console) text += route.is_formatted ? "lines " : "console ";
    if (route.to_file) text += "file ";
    if (route.is_filtered) text += "filtered ";
    CHECK(route.is_inherited() == (text == "console "));
    return text;
}

}  // namespace

TEST_CASE("without options every stream is the worker's own") {
    CHECK(way(OutputPlan{}, Stream::out, 0) == "console ");
    CHECK(way(a_plan(), Stream::err, 7) == "console ");
}

TEST_CASE("what is redirected is only in the file, what is teed also on the console") {
    auto plan = a_plan();
    plan.redirects = {mask({}, 2)};
    plan.tee = {mask({1, 1}, 3)};

    CHECK(way(plan, Stream::out, 0) == "console ");
    CHECK(way(plan, Stream::err, 0) == "file ");
    CHECK(way(plan, Stream::out, 1) == "lines file ");
    CHECK(way(plan, Stream::err, 1) == "lines file ");
}

TEST_CASE("of two masks for a rank the later counts, and ranks of the job are not of the node") {
    auto plan = a_plan();
    plan.redirects = {mask({}, 3), mask({2, 4}, 1), mask({9, 9, true}, 0)};

    CHECK(way(plan, Stream::err, 1) == "file ");
    CHECK(way(plan, Stream::err, 2) == "console ");
    CHECK(way(plan, Stream::out, 1, 8) == "console ");
    CHECK(way(plan, Stream::out, 9) == "console ");
    CHECK(way(plan, Stream::out, 9, 8) == "file ");
}

TEST_CASE("who is filtered out is in the file and not on the console") {
    auto plan = a_plan();
    plan.tee = {mask({0, 1}, 3)};
    plan.console_ranks = {{0, 0}};

    CHECK(way(plan, Stream::out, 0) == "lines file ");
    CHECK(way(plan, Stream::out, 1) == "file ");
    CHECK(way(plan, Stream::out, 2).empty());
}

TEST_CASE("only teed lines are looked at for filters, of the stream they are for") {
    auto plan = a_plan();
    plan.tee = {mask({0, 0}, 3)};
    plan.redirects = {mask({}, 3)};
    plan.out_filters = {"loss"};

    CHECK(way(plan, Stream::out, 0) == "lines file filtered ");
    CHECK(way(plan, Stream::err, 0) == "lines file ");
    CHECK(way(plan, Stream::out, 1) == "file ");
}

TEST_CASE("a prefix and JSON are for everything, with files or without") {
    OutputPlan plan;
    plan.prefixes_everything = true;
    CHECK(way(plan, Stream::out, 0) == "lines ");
    plan.prefixes_everything = false;
    plan.format = LogFormat::json;
    CHECK(way(plan, Stream::err, 0) == "lines ");
}

TEST_CASE("without a folder redirects and tee have no effect") {
    OutputPlan plan;
    plan.redirects = {mask({}, 3)};
    plan.tee = {mask({}, 3)};
    CHECK(way(plan, Stream::out, 0) == "console ");
}
