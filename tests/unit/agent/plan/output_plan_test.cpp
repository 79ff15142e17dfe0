// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/output_plan.hpp"

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

TEST_CASE("a rank that is filtered out is in the file and not on the console") {
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

namespace {

OutputPlan a_plan(LogLayout layout) {
    OutputPlan plan;
    plan.log_dir = "/logs";
    plan.layout = layout;
    return plan;
}

LogPlace a_place() {
    return {"exp1", "0123456789abcdef0123456789abcdef", "feedbeef", "node2", 3, 1};
}

}  // namespace

TEST_CASE("files are in the folder of their job, round, host and rank") {
    const auto plan = a_plan(LogLayout::ddprun);
    const auto folder = log_folder(plan, a_place());

    CHECK(folder.path == "/logs/exp1_01234567/round-3/node2");
    CHECK(
        folder.file_of_worker(Stream::out, 1, 9) ==
        "/logs/exp1_01234567/round-3/node2/rank-9/stdout.log");
    CHECK(
        folder.filtered_file(Stream::err) ==
        "/logs/exp1_01234567/round-3/node2/filtered_stderr.log");
    CHECK(latest_link_target(plan, a_place()) == "exp1_01234567/round-3");
}

TEST_CASE("torchrun's layout has attempts and local ranks, and no link") {
    const auto plan = a_plan(LogLayout::torchrun);
    const auto folder = log_folder(plan, a_place());

    CHECK(folder.path == "/logs/exp1_feedbeef/attempt_1");
    CHECK(folder.file_of_worker(Stream::err, 1, 9) == "/logs/exp1_feedbeef/attempt_1/1/stderr.log");
    CHECK(folder.filtered_file(Stream::out) == "/logs/exp1_feedbeef/attempt_1/filtered_stdout.log");
    CHECK(latest_link_target(plan, a_place()).empty());
}

TEST_CASE("a scheduler's incarnation is in the name as it is") {
    auto place = a_place();
    place.incarnation = "4711.0-2";
    CHECK(log_folder(a_plan(LogLayout::ddprun), place).path == "/logs/exp1_4711.0-2/round-3/node2");
}

TEST_CASE("no files, no folder") {
    CHECK(log_folder(OutputPlan{}, a_place()).is_none());
    CHECK(latest_link_target(OutputPlan{}, a_place()).empty());
}

TEST_CASE("any run id and host name is one name of a file") {
    CHECK(as_file_name("a/b\n") == "a_b_");
    CHECK(as_file_name("..") == "_..");
    CHECK(as_file_name("") == "_");
    CHECK(as_file_name("\xE2\x82\xAC") == "\xE2\x82\xAC");
    CHECK(as_file_name(std::string(1000, 'x')).size() == 120);
    CHECK(as_file_name(std::string(119, 'x') + "\xE2\x82\xAC") == std::string(119, 'x'));
}

TEST_CASE("descriptors are needed for each worker, each relayed stream and each file") {
    const int of_plain = descriptors_needed(OutputPlan{}, 10) - descriptors_needed(OutputPlan{}, 9);
    CHECK(of_plain == 4);
    auto teed = a_plan();
    teed.tee = {mask({}, 3)};
    CHECK(descriptors_needed(teed, 10) - descriptors_needed(teed, 9) == 7);
    CHECK(descriptors_needed(teed, 64) > 256);
    CHECK(descriptors_needed(teed, 8) < 256);
}
