// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <sstream>

using namespace ddprun::test;

namespace {

/// "AGENT START", one for each line.
Words names_of(const std::string& text) {
    const std::regex head(
        R"re(^\{"name":"torchelastic\.worker\.status\.([A-Z_]+)","source":"([A-Z]+)","timestamp":\d+,"metadata":\{.*\}\}$)re");
    Words names;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        std::smatch match;
        names.push_back(
            std::regex_match(line, match, head) ? match[2].str() + " " + match[1].str() : line);
    }
    return names;
}

}  // namespace

TEST_CASE("the event file lists the events of a job under torchelastic's names") {
    const TempDir dir;
    const auto path = (dir / "events").string();
    auto job = one_node(
        dir,
        {"--event-file=" + path, "--max-restarts=1"},
        "exit $((3 * (1 - TORCHELASTIC_RESTART_COUNT)))");

    CHECK(job.wait_for_code() == 0);
    const auto text = read_file(path);
    CHECK(
        names_of(text) == Words{
                              "AGENT RENDEZVOUS",
                              "AGENT ASSIGN_WORKER_RANKS",
                              "WORKER START",
                              "WORKER FAILED",
                              "AGENT RENDEZVOUS",
                              "AGENT ASSIGN_WORKER_RANKS",
                              "WORKER START",
                              "WORKER SUCCEEDED",
                              "AGENT SUCCEEDED"});
    CHECK(contains(text, R"(\"exit_code\":3)"));
    CHECK(contains(text, R"("raw_error":"exited with code 3")"));
}

TEST_CASE("a second job adds to the event file, and workers that were stopped are TERMINATED") {
    const TempDir dir;
    const auto path = dir.write("events", "what was there\n");
    auto job = one_node(
        dir,
        {"--event-file=" + path, "--nproc-per-node=2"},
        "if [ $RANK = 1 ]; then exit 3; fi\n" + wait_for_ever);

    CHECK(job.wait_for_code() == 3);
    const auto names = names_of(read_file(path));
    REQUIRE(names.size() == 8);
    CHECK(names.front() == "what was there");
    CHECK(std::count(names.begin(), names.end(), "WORKER FAILED") == 1);
    CHECK(std::count(names.begin(), names.end(), "WORKER TERMINATED") == 1);
    CHECK(names.back() == "AGENT FAILED");
}

TEST_CASE("an event file that cannot be written is said once and the job goes on") {
    const TempDir dir;
    auto job = one_node(dir, {"--event-file=/no/such/folder/events"}, "exit 0");

    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.err(), "events.not_written"));
    const auto first = job.err().find("events.not_written");
    CHECK(job.err().find("events.not_written", first + 1) == std::string::npos);
}
