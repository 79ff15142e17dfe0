// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/log_layout.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;

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
