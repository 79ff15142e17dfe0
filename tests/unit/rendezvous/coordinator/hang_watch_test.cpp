// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::Activity;
using std::chrono_literals::operator""min;

namespace {

constexpr auto limit = 30s;

/// Nodes a and b with two ranks each.
Story two_nodes(control::OnHang on_hang, int restarts = 3) {
    Story job{"2", restarts, [&](control::Join& join) {
                  speaks_version_2(join);
                  join.nproc = 2;
                  join.settings.hang_after = limit;
                  join.settings.on_hang = on_hang;
              }};
    job.run("a b");
    job.output();
    return job;
}

control::Site waiting(Duration age) {
    return {Activity::waits_for_peers, "all_reduce, called at train.py:57", "", age, {0, 1}};
}

void report(Story& job, const std::string& node, std::vector<control::Site> sites, int round = 0) {
    job.say(
        node,
        control::Heartbeat{
            0,
            std::nullopt,
            std::nullopt,
            std::nullopt,
            control::NodeSites{round, std::move(sites)}});
}

/// Rank 2 reads, the others wait for it.
void report_hang(Story& job, Duration age = 31s) {
    report(job, "a", {waiting(age)});
    auto others = waiting(age);
    others.local_ranks = {1};
    report(
        job,
        "b",
        {others, {Activity::blocked, "read_batch (loader.py:112)", "read(2) on a pipe", age, {0}}});
}

Lines hang_lines(Story& job) {
    auto lines = job.output();
    std::erase_if(
        lines, [](const std::string& line) { return line.find("hang") == std::string::npos; });
    return lines;
}

const std::string the_hang =
    "the job hangs: no progress for 31 s; rank 2 on b is the only rank that does not wait for "
    "others";

}  // namespace

TEST_CASE("every node is notified of a hang once, and it is on the status page while it lasts") {
    auto job = two_nodes(control::OnHang::report);
    report_hang(job);
    job.pass(1s, "a b");
    CHECK(
        hang_lines(job) ==
        Lines{
            "job job round 0 hangs: " + the_hang +
                "; rank 2 on b: blocked in read_batch (loader.py:112) for 31 s;     read(2) on a "
                "pipe; ranks 0-1,3: wait for other ranks in all_reduce, called at train.py:57 for "
                "31 s; confidence: high; next: nothing is done (--on-hang=report)",
            "a hang_found round=0 \"" + the_hang + "\"",
            "b hang_found round=0 \"" + the_hang + "\""});
    CHECK(job.status().hang == the_hang);
    CHECK(job.status().hang_count == 1);
    CHECK(job.status().goodput.phase == "hung");

    job.pass(4s, "a b");
    report_hang(job, 36s);
    job.pass(1s, "a b");
    CHECK(hang_lines(job) == Lines{});
    CHECK(job.status().hang_count == 1);

    report(job, "a", {{Activity::moving, "", "", {}, {0, 1}}});
    report(job, "b", {{Activity::moving, "", "", {}, {0, 1}}});
    job.pass(1s, "a b");
    const auto after = hang_lines(job);
    CHECK(after == Lines{"running: ranks go on: the hang is over"});
    CHECK(job.status().hang.empty());
    CHECK(job.status().goodput.phase == "unmeasured");
}

TEST_CASE("no verdict without the reports of all nodes") {
    auto job = two_nodes(control::OnHang::report);
    SUBCASE("one has sent none") {
        report(job, "a", {waiting(31s)});
    }
    SUBCASE("one has sent none for long") {
        report(job, "a", {waiting(31s)});
        job.pass(20s, "a b");
        report(job, "b", {waiting(51s)});
    }
    SUBCASE("one does not know all of its ranks") {
        report(job, "a", {waiting(31s)});
        auto one = waiting(31s);
        one.local_ranks = {0, 7};
        report(job, "b", {one});
    }
    SUBCASE("one is of another round") {
        report(job, "a", {waiting(31s)});
        report(job, "b", {waiting(31s)}, 7);
    }
    job.pass(1s, "a b");
    CHECK(hang_lines(job) == Lines{});
}

TEST_CASE("what is reported to a job that does not look for hangs is stale") {
    Story job{"2", 3, [](control::Join& join) { speaks_version_2(join); }};
    job.run("a b");
    const auto stale = job.coordinator().stale_count();
    report_hang(job);
    CHECK(job.coordinator().stale_count() == stale + 2);
    job.pass(1s, "a b");
    CHECK(hang_lines(job) == Lines{});
}

TEST_CASE("the rank that hangs is killed, which is its failure") {
    auto job = two_nodes(control::OnHang::restart, 1);
    report_hang(job);
    job.pass(1s, "a b");
    auto lines = hang_lines(job);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].ends_with("next: rank 2 is killed (--on-hang=restart)"));
    CHECK(lines[1] == "a hang_found round=0 \"" + the_hang + "\"");
    CHECK(lines[2] == "b hang_found round=0 \"" + the_hang + "\" kill=0");

    const auto die = [](control::WorkerFailure& failure) {
        failure.end = {control::WorkerEnd::Kind::killed, 9, false};
        failure.has_hung = true;
    };
    job.failed_with("b", 0, {}, die);
    job.ready("a b");
    job.pass(5s, "a b");
    CHECK(job.assignment("b").round == 1);
    CHECK(job.status().hang.empty());

    // No restart is left.
    job.started("a b", 1);
    job.failed_with("b", 1, {}, die);
    job.ready("a b", 1);
    CHECK(job.whole_result("a").exit_code == 88);
}

TEST_CASE("ranks that have ended are not killed") {
    auto job = two_nodes(control::OnHang::restart);
    job.succeeded("b");
    report(job, "a", {waiting(31s)});
    job.pass(1s, "a b");
    const auto lines = hang_lines(job);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].find("ranks 2-3 have ended with code 0") != std::string::npos);
    CHECK(lines[1].ends_with("kill=0"));
    CHECK_FALSE(lines[2].ends_with("kill=0"));
}

TEST_CASE("ranks that work are killed only after ten times the limit") {
    auto job = two_nodes(control::OnHang::restart);
    const auto report_delay = [&](Duration age) {
        report(job, "a", {waiting(age)});
        report(job, "b", {waiting(age)});
        auto one = waiting(age);
        one.local_ranks = {1};
        report(job, "b", {one, {Activity::busy, "save (train.py:90)", "", age, {0}}});
        job.pass(1s, "a b");
        return hang_lines(job);
    };
    auto lines = report_delay(31s);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].ends_with("next: nothing is done so far"));
    CHECK(job.status().hang == "rank 2 on b delays the others for 31 s");
    report_delay(299s);
    CHECK(job.status().hang_count == 1);
    lines = report_delay(300s);
    CHECK(job.status().hang_count == 1);
    CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
              return line.ends_with("kill=0");
          }) == 1);
}

TEST_CASE("nodes of a job agree on what a hang is") {
    auto job = two_nodes(control::OnHang::report);
    job.join("c", [](control::Join& join) { join.settings.hang_after = 31s; });
    job.join("d", [](control::Join& join) { join.settings.hang_after.reset(); });
    job.join("e", [](control::Join& join) { join.settings.on_hang = control::OnHang::restart; });
    auto lines = job.output();
    std::erase_if(lines, [](const std::string& line) {
        return line.find(" refused \"") == std::string::npos;
    });
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].find("31 s") != std::string::npos);
    CHECK(lines[1].find("not given") != std::string::npos);
    CHECK(lines[2].find("--on-hang") != std::string::npos);
}

TEST_CASE("where no rank is named, one is killed only if all wait for each other") {
    auto job = two_nodes(control::OnHang::restart);
    auto site = waiting(31s);
    std::string next = "next: rank 0 is killed (--on-hang=restart)";
    SUBCASE("they wait") {}
    SUBCASE("they sleep") {
        site = {Activity::blocked, "sleep (train.py:3)", "", 31s, {0, 1}};
        next = "next: nothing is done so far";
    }
    report(job, "a", {site});
    report(job, "b", {site});
    job.pass(1s, "a b");
    const auto lines = hang_lines(job);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].ends_with(next));
}

TEST_CASE("a rank that works and says that this takes long is not killed") {
    auto job = two_nodes(control::OnHang::restart);
    job.show_progress("b", 0, {{0, {7, control::WorkPhase::save}}});
    auto one = waiting(1000s);
    report(job, "a", {one});
    one.local_ranks = {1};
    report(job, "b", {one, {Activity::busy, "save (train.py:90)", "", 900s, {0}}});
    job.pass(1s, "a b");
    const auto lines = hang_lines(job);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].ends_with("next: nothing is done so far"));
}

TEST_CASE("no verdict while a node is not connected, and none is an end of the hang") {
    auto job = two_nodes(control::OnHang::report);
    report_hang(job);
    job.pass(1s, "a b");
    CHECK(hang_lines(job).size() == 3);
    job.drop("a");
    report(job, "b", {waiting(36s)});
    job.pass(400ms);
    CHECK(hang_lines(job) == Lines{});
    CHECK(job.status().hang == the_hang);
}
