// SPDX-License-Identifier: Apache-2.0
// Ranks that wait in the round's store for a missing rank: what the log, the pages and the report
// show.
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <fstream>
#include <regex>
#include <string>
#include <utility>

using namespace ddprun::test;
using Json = nlohmann::json;

namespace {

/// More than the 30 s after which a wait counts as long.
constexpr std::chrono::seconds long_wait_deadline{120};

/// The shell commands of a worker with this rank.
std::string when_rank(int rank, const std::string& what) {
    return "if [ $RANK = " + std::to_string(rank) + " ]; then " + what + "; fi\n";
}

/// Removes the line breaks in the report's own lines.
std::string unwrapped(const std::string& report) {
    return std::regex_replace(report, std::regex{"\\n +"}, " ");
}

std::string without_host(const std::string& text) {
    return std::regex_replace(text, std::regex{"\\([^()]*\\) (is|are)"}, "(HOST) $1");
}

/// Rank 1 never connects, rank 2 waits all the time, and rank 3 is connected. When rank 2 waits,
/// rank 0 waits for 2 s; it ends when the file "end" exists.
std::string one_rank_is_missing(const TempDir& dir) {
    const auto folder = dir.path().string();
    const auto wait = stub_in_shell("wait_in_store");
    const auto then_make = [&](const std::string& name) {
        return " | while read line; do : > " + folder + "/" + name + "; done";
    };
    const auto both = "[ -e " + folder + "/two -a -e " + folder + "/three ]";
    return when_rank(1, wait_for_ever) + when_rank(2, wait + " pg/0 600" + then_make("two")) +
           when_rank(3, wait + " '' 0" + then_make("three")) + "until " + both +
           "; do sleep 0.02; done\nexec " + wait + " pg/0 2 " + folder + "/end";
}

}  // namespace

TEST_CASE("a failure after a wait that timed out names the rank that never connected") {
    const TempDir dir;
    Words options{"--nproc-per-node=4", "--log-level=debug"};
    SUBCASE("with the store in the first node's agent") {
        options.push_back("--standalone");
    }
    SUBCASE("with the store in the server") {
        options.push_back("--master-port=" + std::to_string(free_port()));
    }
    const auto report_file = (dir.path() / "report.json").string();
    options.push_back("--report-file=" + report_file);

    auto job = start_job(dir, options, one_rank_is_missing(dir));
    // The agent has examined its workers: now rank 0 may end.
    job.wait_for_line("agent.effect.*send .* heartbeat 0 round=0 sockets=");
    std::ofstream{dir.path() / "end"};
    CHECK(job.wait_for_code() == 1);

    const std::string why =
        " s for the key pg/0 in the store timed out (ranks 0,2); rank 1 (HOST) is not connected; "
        "rank 3 (HOST) is connected and does not wait for it";
    const auto screen = without_host(unwrapped(job.err()));
    CAPTURE(screen);
    CHECK(contains(screen, " why            a wait of "));
    CHECK(contains(screen, why));
    const auto json = Json::parse(read_file(report_file));
    CHECK(contains(without_host(json["root_cause"]["worker"]["why"].get<std::string>()), why));
    CHECK(no_descendants_left());
}

TEST_CASE("a long wait of two hosts is in the log and on the status page, with the missing rank") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair hosts;
    const TempDir dir;
    const auto endpoint = hosts.a().address + ":29400";
    const auto path = dir.write_script(
        "worker",
        "#!/bin/sh\n" + when_rank(3, wait_for_ever) + "exec " + stub_in_shell("wait_in_store") +
            " pg/0 600\n");
    const auto start = [&](const NetworkPair::Host& host, const std::string& name) {
        Running::Options options;
        options.network_namespace = host.name;
        options.arguments = {
            "--uts",
            "sh",
            "-c",
            "hostname " + name + " && exec \"$0\" \"$@\"",
            program("ddprun"),
            "--nnodes=2",
            "--nproc-per-node=2",
            "--rdzv-backend=c10d",
            "--rdzv-id=tested",
            "--rdzv-endpoint=" + endpoint,
            "--node-rank=" + std::string{name == "host-a" ? "0" : "1"},
            "--no-python",
            path};
        return Running{"unshare", options};
    };
    auto a = start(hosts.a(), "host-a");
    auto b = start(hosts.b(), "host-b");

    const auto line = a.wait_for_line("store.waiting", long_wait_deadline);
    CHECK(contains(line, " key=pg/0 ranks=0-2 since_s=3"));
    CHECK(contains(line, " missing=\"rank 3 (host-b) is not connected\""));

    Running::Options fetch;
    fetch.network_namespace = hosts.b().name;
    fetch.arguments = {
        "-c",
        "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())",
        "http://" + endpoint + "/status"};
    Running page("python3", fetch);
    REQUIRE(page.wait_for_code() == 0);
    const auto wait = Json::parse(page.out())["jobs"][0]["store_wait"];
    CAPTURE(wait.dump());
    CHECK(wait["key"] == "pg/0");
    CHECK(wait["ranks"] == "0-2");
    CHECK(wait["missing"] == "rank 3 (host-b) is not connected");
    CHECK(wait["since_s"].get<double>() >= 30);

    a.signal(SIGINT);
    a.wait_for_exit();
    b.wait_for_exit();
}
