// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <string>

using namespace ddprun::test;

namespace {

/// Prints the command that it wraps, and passes the exit code on.
std::string wrapper(const TempDir& dir) {
    return dir.write_script(
        "wrap", "#!/bin/sh\nword=$1; shift\necho \"rank $RANK: $word\"\n\"$@\"\n");
}

}  // namespace

TEST_CASE("a wrapper runs the ranks that it was given, and their exit codes are the job's") {
    const TempDir dir;
    const auto wrap = "--wrap=1-2: '" + wrapper(dir) + "' as%r";
    auto job = one_node(dir, {"--nproc-per-node=3", wrap}, "echo \"work $RANK\"");
    CHECK(job.wait_for_code() == 0);
    CHECK(
        sorted_lines(job.out()) ==
        Words{"rank 1: as1", "rank 2: as2", "work 0", "work 1", "work 2"});

    auto failed = one_node(
        dir,
        {"--nproc-per-node=2", "--wrap=all: '" + wrapper(dir) + "' x"},
        "test $RANK = 0 || exit 7; " + wait_for_ever);
    CHECK(failed.wait_for_code() == 7);
    CHECK(no_descendants_left());
}

TEST_CASE("a wrapper that is missing ends ddprun with 2 before anything starts") {
    const TempDir dir;
    auto job = one_node(dir, {"--wrap=0: no-such-debugger -x"}, "echo started");
    CHECK(job.wait_for_code() == 2);
    CHECK(job.out().empty());
    CHECK(contains(job.err(), "--wrap: no-such-debugger: program not found on PATH"));
}

TEST_CASE("under strace a rank's exit code and signal are what they are without it") {
    const std::string strace = "/usr/bin/strace";
    if (::access(strace.c_str(), X_OK) != 0) return skip_even_as_root("no strace");
    const TempDir dir;
    if (Running(strace, {"-o", (dir / "probe").string(), "true"}).wait_for_code() != 0)
        return skip_even_as_root("no ptrace");
    const Words options{"--wrap=0: strace -f -o '" + (dir / "trace.%r").string() + "'"};
    CHECK(one_node(dir, options, "exit 7").wait_for_code() == 7);
    CHECK(one_node(dir, options, "kill -SEGV $$").wait_for_code() == 139);
    CHECK(contains(read_file(dir / "trace.0"), "SIGSEGV"));
}
