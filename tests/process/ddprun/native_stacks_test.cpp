// SPDX-License-Identifier: Apache-2.0
// `ddprunctl stacks --native`: with the real gdb, and with programs that fail.
#include "launcher/run_program.hpp"
#include "tests/process/ddprun/ctl.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun::test;
using namespace std::chrono_literals;
using ddprun::launcher::run_program;

namespace {

/// A job of two workers that sleep, and ddprunctl with a PATH of its own.
struct Sleepers {
    TempDir dir;
    std::string id = fresh_id();
    Running job = start_job(
        dir,
        Rendezvous{}.options({"--rdzv-id=" + id, "--nproc-per-node=2"}),
        "echo up; exec sleep 1000");

    Sleepers() {
        job.wait_for_line("up");
        job.wait_for_line("up");
        CHECK(is_running(id));
    }

    Outcome native(
        const std::string& path,
        const Words& more = {},
        std::vector<int> ignored_signals = {}) const {
        Running::Options options;
        options.ignored_signals = std::move(ignored_signals);
        options.arguments = Words{"stacks", id, "--native"} + more;
        options.environment["PATH"] = path;
        return outcome_of(Running{program("ddprunctl"), options});
    }

    void stop() {
        CHECK(is_running(id));
        CHECK(ctl({"stop", id}).code == 0);
        CHECK(job.wait_for_code() == 143);
    }
};

/// A program that has a version, and otherwise does this.
void write_tool(const TempDir& dir, const std::string& name, const std::string& script) {
    dir.write_script(name, "#!/bin/sh\n[ \"$1\" != --version ] || exit 0\n" + script + "\n");
}

}  // namespace

TEST_CASE("gdb shows the native stacks of workers, which then go on") {
    if (::access("/usr/bin/gdb", X_OK) != 0) return skip("no gdb here");
    Sleepers sleepers;
    const auto seen = sleepers.native("/usr/bin:/bin", {"--json"});
    INFO(seen.out, seen.err);
    CHECK(seen.code == 0);
    CHECK(contains(seen.err, "each worker is stopped while its native stacks are read"));
    const auto ranks = Json::parse(seen.out);
    REQUIRE(ranks.size() == 2);
    for (const auto& rank : ranks) {
        CHECK(rank["native"]["by"] == "gdb");
        CHECK(rank["native"]["stacks"].get<std::string>().starts_with("Thread 1 "));
        CHECK(contains(rank["native"]["stacks"], "nanosleep"));
    }

    // Not stopped, and no debugger is left with them.
    const auto after = ctl({"stacks", sleepers.id, "--json"});
    for (const auto& rank : Json::parse(after.out))
        CHECK(rank["activity"] == "blocked");
    sleepers.stop();
}

TEST_CASE("py-spy is tried before gdb, and what each has failed with is shown") {
    Sleepers sleepers;
    const TempDir tools;
    const auto path = tools.path().string() + ":/usr/bin:/bin";
    write_tool(
        tools,
        "py-spy",
        "[ \"$1 $2 $3\" = 'dump --native --pid' ] || exit 2\n"
        "printf 'Process %s: sleep\\nPython v3.11\\n\\nThread 7 (idle)\\n    read (libc.so.6)\\n' "
        "$4");
    write_tool(tools, "gdb", "echo 'ptrace: Operation not permitted.' >&2; exit 1");
    const auto seen = sleepers.native(path, {"--ranks=1"});
    CHECK(seen.code == 0);
    CHECK(contains(
        seen.out, "  native stacks, by py-spy:\n  Thread 7 (idle)\n      read (libc.so.6)\n"));
    CHECK_FALSE(contains(seen.out, "Python v3.11"));

    const auto without_children = sleepers.native(path, {"--ranks=1"}, {SIGCHLD});
    CHECK(without_children.code == 0);
    CHECK(contains(without_children.out, "  native stacks, by py-spy:\n"));

    write_tool(tools, "py-spy", "echo 'Error: Failed to find python version' >&2; exit 1");
    const auto failed = sleepers.native(path);
    CHECK(failed.code == 1);
    const std::string problem =
        "  no native stacks: py-spy: Error: Failed to find python version; gdb: ptrace: Operation "
        "not permitted.\n";
    const auto first = failed.out.find(problem);
    CHECK(first != std::string::npos);
    CHECK(failed.out.find(problem, first + 1) != std::string::npos);
    CHECK(contains(failed.out, "rank 1, pid "));
    sleepers.stop();
}

TEST_CASE("without py-spy and gdb --native says what to install") {
    Sleepers sleepers;
    const TempDir empty;
    const auto seen = sleepers.native(empty.path().string());
    CHECK(seen.code == 1);
    CHECK(seen.out.empty());
    CHECK(contains(seen.err, "--native: neither py-spy nor gdb can be started here"));
    sleepers.stop();
}

TEST_CASE("a program's output and errors are read, and it is ended at its limits") {
    const ddprun::launcher::ProgramLimits limits{60s, 1'000};
    const auto run = [&](const std::string& script) {
        return run_program({"sh", "-c", script}, limits);
    };
    const auto done = run("echo out; echo err >&2");
    CHECK(done.is_success);
    CHECK(done.output == "out\n");
    CHECK(done.errors == "err\n");

    const auto failed = run("echo out; echo err >&2; exit 3");
    CHECK_FALSE(failed.is_success);
    CHECK(failed.errors == "err\n");

    const auto missing = run_program({"no-such-program"}, limits);
    CHECK_FALSE(missing.is_success);
    CHECK(missing.errors == "No such file or directory");

    const auto wordy = run("yes");
    CHECK_FALSE(wordy.is_success);
    CHECK(wordy.errors == "it wrote more than 1000 bytes");

    const auto noisy = run("yes | head -c 100000 >&2; echo last >&2");
    CHECK(noisy.is_success);
    CHECK(noisy.errors.size() <= 4096);
    CHECK(noisy.errors.ends_with("last\n"));

    const auto slow = run_program({"sh", "-c", "trap '' TERM; exec sleep 1000"}, {100ms, 1});
    CHECK_FALSE(slow.is_success);
    CHECK(slow.errors == "it took longer than 0.1 s");
}
