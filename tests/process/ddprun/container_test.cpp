// SPDX-License-Identifier: Apache-2.0
#include "agent/process/descendants.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/mount_namespace.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

/// `ddprun` under filters that refuse these system calls, one filter inside the other.
Running refusing(const Words& calls, const Words& arguments) {
    Words words;
    for (const auto& call : calls)
        words = words + Words{stub("refuse"), call};
    words.push_back(program("ddprun"));
    words = words + arguments;
    const auto first = words.front();
    words.erase(words.begin());
    return Running(first, words);
}

/// The pid, in this namespace, of process 1 of the pid namespace in which ddprun runs.
pid_t process_one() {
    std::map<pid_t, ProcessEntry> own;
    for (const auto& process : list_descendants())
        if (std::string{process.command.data()} == "ddprun") own[process.pid] = process;
    // The agent's parent is the keeper; the keeper's parent is outside of the namespace.
    for (const auto& [pid, process] : own)
        if (own.count(process.parent) == 0) return pid;
    return 0;
}

}  // namespace

TEST_CASE("jobs run under filters that refuse what containers refuse") {
    const TempDir dir;
    const auto script = dir.write_script(
        "work",
        "#!/bin/sh\necho life $TORCHELASTIC_RESTART_COUNT\n"
        "exit $((3 * (1 - TORCHELASTIC_RESTART_COUNT)))\n");
    for (const auto& calls : std::vector<Words>{
             {"pidfd_open"},
             {"close_range"},
             {"clone3"},
             {"clone3-eperm"},
             {"pidfd_open", "close_range", "clone3"}}) {
        CAPTURE(calls.front());
        auto job = refusing(
            calls,
            {"--standalone", "--nproc-per-node=2", "--max-restarts=1", "--no-python", script});

        CHECK(job.wait_for_code() == 0);
        CHECK(contains(job.out(), "life 1\nlife 1\n"));
        CHECK(no_descendants_left());
    }
}

TEST_CASE("at the limit of a user's processes the limit is named, and nothing is left") {
    if (::geteuid() != 0) return skip("another user's processes need root");
    if (::access("/usr/bin/prlimit", X_OK) != 0) return skip("no prlimit");
    // A copy that another user can read; no process runs with this user's number.
    const TempDir dir;
    const auto copy = (dir / "ddprun").string();
    std::filesystem::copy_file(program("ddprun"), copy);
    ::chmod(dir.path().c_str(), 0755);
    for (const auto* limit : {"1", "2", "3", "4", "5", "6"}) {
        CAPTURE(limit);
        Running job(
            "/usr/bin/setpriv",
            Words{
                "--reuid=61234",
                "--clear-groups",
                "/usr/bin/prlimit",
                std::string{"--nproc="} + limit,
                copy,
                "--standalone",
                "--no-python",
                "/bin/true"});
        CHECK(job.wait_for_code() == 1);
        CHECK(contains(
            job.err(),
            "no further thread or process could be started: this user may have " +
                std::string{limit} + " of them (RLIMIT_NPROC, ulimit -u)"));
        CHECK(no_descendants_left());
    }
    // This limit is enough for the agent, but not for its workers.
    Running job(
        "/usr/bin/setpriv",
        {"--reuid=61234",
         "--clear-groups",
         "/usr/bin/prlimit",
         "--nproc=12",
         copy,
         "--standalone",
         "--nproc-per-node=12",
         "--no-python",
         "/usr/bin/tail",
         "-f",
         "/dev/null"});
    CHECK(job.wait_for_code() == 1);
    const auto written = job.err();
    CAPTURE(written);
    CHECK(contains(written, "this user may have 12 of them (RLIMIT_NPROC, ulimit -u)"));
    // One line for all the workers that could not be started.
    const auto line = written.find("worker.exited");
    CHECK(line != std::string::npos);
    CHECK(written.find("worker.exited", line + 1) == std::string::npos);
    CHECK(no_descendants_left());
}

TEST_CASE("where nothing can be written, and /tmp neither, jobs run, restart and are reported") {
    if (const auto reason = why_no_mount_namespace(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const auto script = dir.write_script(
        "work",
        "#!/bin/sh\ntouch $0.written 2>/dev/null && echo written\n"
        "echo life $TORCHELASTIC_RESTART_COUNT\nexit $((3 + TORCHELASTIC_RESTART_COUNT))\n");
    Running job(
        "unshare",
        {"--mount",
         "sh",
         "-c",
         "mount -o remount,ro,bind / && for folder in /tmp /var/tmp /dev/shm; do\n"
         "mount --bind $folder $folder && mount -o remount,ro,bind $folder || exit 99; done\n"
         "exec \"$@\"",
         "sh",
         program("ddprun"),
         "--standalone",
         "--max-restarts=1",
         "--no-python",
         script});

    CHECK(job.wait_for_code() == 4);
    CHECK(job.out() == "life 0\nlife 1\n");
    CHECK(contains(job.err(), "exited with code 4"));
    CHECK(no_descendants_left());
}

TEST_CASE("without pidfds workers are stopped and their ends are known all the same") {
    SUBCASE("a worker that exits on the signal") {
        auto job =
            refusing({"pidfd_open"}, {"--standalone", "--no-python", stub("print_signal"), "exit"});
        job.wait_for_line("up");
        job.signal(SIGTERM);
        CHECK(job.wait_for_code() == 143);
        CHECK(contains(job.out(), "got signal"));
    }
    SUBCASE("a worker that ignores the signal") {
        auto job = refusing(
            {"pidfd_open"},
            {"--standalone",
             "--shutdown-timeout=0.2",
             "--no-python",
             stub("print_signal"),
             "stay"});
        job.wait_for_line("up");
        job.signal(SIGTERM);
        CHECK(job.wait_for_code() == 143);
    }
    SUBCASE("a worker that dies of a signal") {
        const TempDir dir;
        auto job = refusing(
            {"pidfd_open"},
            {"--standalone",
             "--no-python",
             dir.write_script("work", "#!/bin/sh\nkill -SEGV $$\n")});
        CHECK(job.wait_for_code() == 128 + SIGSEGV);
        CHECK(contains(job.err(), "killed by SIGSEGV"));
    }
    CHECK(no_descendants_left());
}

TEST_CASE("as process 1 ddprun reaps orphans of others and kills none before the end") {
    if (const auto reason = why_no_mount_namespace(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const auto go = (dir / "go").string();
    const auto script = dir.write_script(
        "work",
        "#!/bin/sh\nif [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then\n"
        "  echo again; exec tail -f /dev/null\nfi\n"
        "echo up; until test -e " +
            go + "; do sleep 0.02; done; exit 1\n");
    Running job(
        "unshare",
        {"--pid",
         "--fork",
         "--mount-proc",
         program("ddprun"),
         "--standalone",
         "--max-restarts=1",
         "--no-python",
         script});
    job.wait_for_line("up");
    const auto first = process_one();
    REQUIRE(first > 0);
    // Starts a process as `docker exec` does: its parent is outside, and when the parent ends the
    // process belongs to process 1. It creates a file when it has read its parent's pid.
    const auto knows = (dir / "knows").string();
    const auto brief = dir.write_script(
        "brief", "#!/bin/sh\n: >" + knows + "\nwhile test -d /proc/$PPID; do sleep 0.02; done\n");
    Running visitor(
        "nsenter",
        {"--pid",
         "--mount",
         "--target",
         std::to_string(first),
         "/bin/sh",
         "-c",
         "setsid sleep 1004 & long=$!; setsid " + brief + " & until test -e " + knows +
             " && test $(cat /proc/$long/comm) = sleep; "
             "do sleep 0.02; done"});
    CHECK(visitor.wait_for_code() == 0);
    const auto named = [](const std::string& name) {
        const auto all = list_descendants();
        return std::count_if(all.begin(), all.end(), [&](const ProcessEntry& process) {
            return name == process.command.data();
        });
    };

    // The process that ended is reaped; the one that runs survives the end of a round.
    CHECK(holds_within(fact_timeout, [&] { return named("brief") == 0; }));
    dir.write("go", "");
    job.wait_for_line("again");
    CHECK(named("sleep") == 1);

    ::kill(first, SIGTERM);
    CHECK(job.wait_for_code() == 143);
    CHECK(no_descendants_left());
}
