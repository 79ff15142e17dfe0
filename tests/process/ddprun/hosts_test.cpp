// SPDX-License-Identifier: Apache-2.0
// The local half of a job on several hosts, without ssh; tests/hosts has the other half.
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

using namespace ddprun::agent;
using namespace ddprun::test;

TEST_CASE("a host that is this machine is started without ssh, and its report is shown once") {
    const TempDir dir;
    auto job = start_job(
        dir,
        {"--hosts=localhost:2", "--report-file=" + (dir / "report").string()},
        "echo rank $RANK; cat; [ $RANK = 0 ] || { echo why >&2; exit 7; }; exec sleep 600");
    CHECK(job.wait_for_code() == 7);
    CHECK(sorted_lines(job.out()) == Words{"rank 0", "rank 1"});
    const auto& err = job.err();
    const std::string headline = "ddprun: job failed: rank 1 on ";
    CHECK(err.find(headline) != std::string::npos);
    CHECK(err.find(headline) == err.rfind(headline));
    CHECK(err.find("ddprun-report") == std::string::npos);
    CHECK(read_file((dir / "report").string()).find("\"exit_code\":7") != std::string::npos);
    CHECK(no_descendants_left());
}

TEST_CASE("an interrupt of a job on hosts is a signal to its nodes") {
    const TempDir dir;
    auto job = start_job(dir, {"--hosts=localhost"}, "echo up; exec sleep 600");
    job.wait_for_line("up");
    job.signal(SIGINT);
    CHECK(job.wait_for_code() == 130);
    CHECK(job.err().find("job was cancelled: interrupted by SIGINT") != std::string::npos);
    CHECK(no_descendants_left());
}

TEST_CASE("the end of a node's connection stops it, and the workers get SIGTERM") {
    const TempDir dir;
    auto job = start_job(
        dir,
        {"--hosts=localhost"},
        "trap 'echo > " + (dir / "stopped").string() +
            "; exit 0' TERM; echo up; while :; do sleep 0.01; done");
    job.wait_for_line("up");
    job.signal(SIGKILL);
    job.wait_for_exit();
    CHECK(holds_within(fact_timeout, [&] { return std::filesystem::exists(dir / "stopped"); }));
    CHECK(no_descendants_left());
}

TEST_CASE("a node starts no hosts, whatever the login of its machine exports") {
    Running node{
        program("ddprun"),
        Running::Options{
            {"--explain", "--no-python", "true"},
            {{"DDPRUN_HOSTS_LINK", "t"}, {"PET_HOSTS", "a,b"}, {"PET_MAX_RESTARTS", "many"}},
            false,
            "",
            "",
            false,
            {}}};
    CHECK(node.wait_for_code() == 0);
    CHECK(node.out().find("hosts ") == std::string::npos);
    CHECK(node.out().find("(ssh)") == std::string::npos);
}

TEST_CASE("more hosts than there are descriptors for are refused before one is contacted") {
    std::string hosts = "h1";
    for (int i = 2; i <= 40; ++i)
        hosts += ",h" + std::to_string(i);
    Running job{
        "/bin/sh",
        {"-c",
         "ulimit -n 100; exec \"$0\" --hosts=" + hosts + " --no-python true",
         program("ddprun")}};
    CHECK(job.wait_for_code() != 0);
    CHECK(job.err().find("the hard limit of open files is 100") != std::string::npos);
    CHECK(job.err().find("host.failed") == std::string::npos);
}

TEST_CASE("a working directory that was removed is refused before a host is contacted") {
    const TempDir dir;
    Running job{
        "/bin/sh",
        {"-c",
         "mkdir " + (dir / "gone").string() + " && cd " + (dir / "gone").string() +
             " && rmdir ../gone && exec \"$0\" --hosts=nowhere --no-python true",
         program("ddprun")}};
    CHECK(job.wait_for_code() != 0);
    CHECK(job.err().find("which was removed") != std::string::npos);
}
