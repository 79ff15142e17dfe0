// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>

using namespace ddprun::test;

namespace {

constexpr const char* page_path = DDPRUN_SOURCE_DIR "/README.md";
const std::string begin_mark = "<!-- report:begin -->\n```\n";
const std::string end_mark = "```\n<!-- report:end -->";

/// Rank 5 fails when all eight run; the others wait, as in a collective.
constexpr const char* train = R"(import os, signal, time
open("up" + os.environ["RANK"], "x").close()
if os.environ["RANK"] != "5":
    signal.pause()
while len([name for name in os.listdir() if name.startswith("up")]) < 8:
    time.sleep(0.01)
raise ValueError("loss is nan at step 310")
)";

/// `ddprun` where the host is called `name`.
Running node(
    const TempDir& dir,
    const NetworkPair::Host& host,
    const std::string& name,
    const Words& words) {
    Running::Options options;
    options.arguments =
        Words{
            "--uts", "sh", "-c", "hostname " + name + " && exec \"$0\" \"$@\"", program("ddprun")} +
        words;
    options.environment = {{"OMP_NUM_THREADS", "1"}};
    options.directory = dir.path();
    options.network_namespace = host.name;
    return Running{"unshare", options};
}

/// The report from the headline on, with the same process and folder in every run.
std::string report_of(const std::string& screen, const TempDir& dir) {
    const auto begin = screen.find("ddprun: job failed");
    auto report = begin == std::string::npos ? "" : screen.substr(begin);
    for (const auto folder = dir.path().string() + "/"; report.find(folder) != std::string::npos;)
        report.replace(report.find(folder), folder.size(), "/home/you/");
    return std::regex_replace(report, std::regex{"pid [0-9]+"}, "pid 4711");
}

std::string headline_of(const std::string& report) {
    return report.substr(0, report.find("\n  root cause"));
}

}  // namespace

TEST_CASE("README shows the report of a crash as every node prints it") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair pair;
    const TempDir dir;
    dir.write("train.py", train);
    const Words words{
        "--nnodes=2",
        "--nproc-per-node=4",
        "--rdzv-id=bert",
        "--rdzv-endpoint=" + pair.a().address + ":29400",
        "train.py"};

    auto a = node(dir, pair.a(), "node1", words);
    auto b = node(dir, pair.b(), "node2", words);
    CHECK(a.wait_for_code() == 1);
    CHECK(b.wait_for_code() == 1);

    const auto report = report_of(a.err(), dir);
    CHECK(headline_of(report_of(b.err(), dir)) == headline_of(report));
    const auto page = read_file(page_path);
    const auto begin = page.find(begin_mark) + begin_mark.size();
    const auto end = page.find(end_mark);
    REQUIRE((begin <= end && end < page.size()));
    if (std::getenv("DDPRUN_REWRITE") != nullptr)
        std::ofstream{page_path, std::ios::binary} << page.substr(0, begin) << report
                                                   << page.substr(end);
    CHECK_MESSAGE(
        read_file(page_path).find(begin_mark + report + end_mark) != std::string::npos,
        "README.md is stale: DDPRUN_REWRITE=1 build/dev/bin/ddprun_process -tc='README*' writes it "
        "again. The report is:\n"
            << report);
}
