// SPDX-License-Identifier: Apache-2.0
// A rank hangs while the others wait for it: which rank is named, and what follows. The workers
// wait in a function whose name and file are like PyTorch's.
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

using namespace ddprun::test;

namespace {

namespace fs = std::filesystem;

constexpr const char* shortest = "--hang-after=10s";

/// `stuck`: the Python code that rank 1 runs in the first round. In the second round all ranks end.
std::string write_script(const TempDir& dir, const std::string& stuck) {
    const auto package = dir.path() / "site-packages" / "torch" / "distributed";
    fs::create_directories(package);
    std::ofstream{package / "distributed_c10d.py"} << "import os\n"
                                                      "def all_reduce():\n"
                                                      "    os.read(os.pipe()[0], 1)\n";
    const auto script = dir.path() / "train.py";
    std::ofstream{script} << "import os, sys, time\n"
                             "sys.path.insert(0, '"
                          << package.string()
                          << "')\n"
                             "from distributed_c10d import all_reduce\n"
                             "def read_batch():\n"
                             "    os.read(os.pipe()[0], 1)\n"
                             "if os.environ['TORCHELASTIC_RESTART_COUNT'] != '0': sys.exit(0)\n"
                             "if os.environ['RANK'] == '1': "
                          << stuck << "\nall_reduce()\n";
    return script.string();
}

Running start(const std::string& script, const Words& more) {
    return Running{
        program("ddprun"),
        Words{"--standalone", "--nproc-per-node=3", "--python=python3", shortest} + more +
            Words{script}};
}

bool has_readable_python() {
    Running python{"python3", {"-c", "import sys; sys.exit(sys.version_info < (3, 11))"}};
    return python.wait_for_code() == 0;
}

}  // namespace

TEST_CASE("a rank that does not go on is named, with its place, and the job runs on") {
    if (!has_readable_python()) return skip("python3 is older than 3.11");
    const TempDir dir;
    auto job = start(write_script(dir, "read_batch()"), {});
    job.wait_for_line("  rank 1 on .*: blocked in read_batch \\(train.py:5\\) for 1[0-9] s");
    job.wait_for_line("  ranks 0,2: wait for other ranks in all_reduce, called at train.py:8");
    job.wait_for_line("  next: nothing is done");
    CHECK(contains(job.err(), " is the only rank that does not wait for others"));
    job.signal(SIGINT);
    CHECK(job.wait_for_code() == 130);
}

TEST_CASE("with --on-hang=restart the rank that does not go on is killed") {
    if (!has_readable_python()) return skip("python3 is older than 3.11");
    const TempDir dir;
    int code = 0;
    Words more{"--on-hang=restart"};
    SUBCASE("a restart is left") {
        more.push_back("--max-restarts=1");
    }
    SUBCASE("none is") {
        code = 88;
    }
    auto job = start(write_script(dir, "os.kill(os.getpid(), 19)"), more);
    CHECK(job.wait_for_code() == code);
    CHECK(contains(job.err(), "rank 1 is killed (--on-hang=restart)"));
    if (code != 0) CHECK(contains(job.err(), "the job hangs: no progress for 1"));
    CHECK_FALSE(contains(job.err(), "core dumped"));
}
