// SPDX-License-Identifier: Apache-2.0
// --warm=1: which restarts use a process that was started early, and which start cold.
#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

using namespace ddprun::test;

namespace {

const std::string modules = DDPRUN_SOURCE_DIR "/worker_sdk/python";

/// A script that imports `early`, a package in the folder site-packages, and prints a step; a
/// worker of the first round then waits for a signal.
class WarmJob {
public:
    explicit WarmJob(const std::string& early) {
        fill_package(early);
        write_script("old");
    }

    void fill_package(const std::string& text) const {
        std::filesystem::create_directories(packages());
        std::ofstream{packages() / "early.py"} << text;
    }
    void fill_fork(const std::string& text) const {
        std::filesystem::create_directories(dir_.path() / "fork");
        std::ofstream{dir_.path() / "fork" / "early.py"} << text;
    }
    void write_script(const std::string& name, const std::string& before = "") const {
        std::ofstream{script()} << before
                                << "import early, os, sys, time\n"
                                   "import ddprun\n"
                                   "ddprun.report(1)\n"
                                   "print('"
                                << name
                                << "', 'restart', os.environ['TORCHELASTIC_RESTART_COUNT'], "
                                   "'in', early.pid == os.getpid() and early.rank, sys.argv[1:], "
                                   "'pid', os.getpid(), 'end', flush=True)\n"
                                   "while os.environ['TORCHELASTIC_RESTART_COUNT'] != '"
                                << last_restart << "': time.sleep(0.01)\n";
    }
    Running start() const {
        Running::Options options;
        options.arguments = {
            "--standalone",
            "--warm=1",
            "--python=python3",
            "--log-level=info",
            "--max-restarts=" + last_restart,
            script().string(),
            "a b"};
        options.environment = {
            {"PYTHONPATH", packages().string() + ":" + modules}, {"PYTHONDONTWRITEBYTECODE", "1"}};
        return Running{program("ddprun"), options};
    }

    std::string last_restart = "1";

private:
    std::filesystem::path packages() const { return dir_.path() / "site-packages" / "x"; }
    std::filesystem::path script() const { return dir_.path() / "train.py"; }

    TempDir dir_;
};

const std::string usual =
    "import os\npid = os.getpid()\nrank = os.environ.get('LOCAL_RANK')\nprint('imported')\n";

}  // namespace

TEST_CASE("a restart gets a process that has imported before, with the script of now") {
    WarmJob warm{usual};
    std::string name = "old";
    std::string early = "0";
    auto job = warm.start();
    const int worker = job.wait_for_number(" pid ");
    job.wait_for_line("workers.parked count=1");
    SUBCASE("nothing has changed") {}
    SUBCASE("the script was edited meanwhile") {
        warm.write_script(name = "new");
    }
    SUBCASE("an imported module was edited meanwhile, and is imported again") {
        warm.fill_package(usual + "rank = 'edited'\n");
        early = "edited";
    }
    ::kill(worker, SIGKILL);
    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.out(), name + " restart 1 in " + early + " ['a b']"));
    // Printed by the first round's worker only, or also by a restarted one.
    const auto out = job.out();
    CHECK((out.find("imported") != out.rfind("imported")) == (early == "edited"));
}

TEST_CASE("what a script does before an import is done before it in a restart, too") {
    std::string before;
    SUBCASE("it changes the path") {
        before = "sys.path.insert(0, os.path.dirname(__file__) + '/fork')";
    }
    SUBCASE("it sets a variable") {
        before = "os.environ['EARLY_RANK'] = 'set'";
    }
    WarmJob warm{usual + "rank = os.environ.get('EARLY_RANK')\n"};
    warm.fill_fork("import os\npid, rank = os.getpid(), 'set'\n");
    warm.write_script("old", "import os, sys\n" + before + "\n");
    auto job = warm.start();
    const int worker = job.wait_for_number(" pid ");
    job.wait_for_line("workers.parked count=1");
    ::kill(worker, SIGKILL);
    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.out(), "old restart 0 in set"));
    CHECK(contains(job.out(), "old restart 1 in set"));
}

TEST_CASE("a second failure before the next process is parked is a restart as ever") {
    WarmJob warm{usual};
    warm.last_restart = "2";
    warm.write_script("old");
    auto job = warm.start();
    const int first = job.wait_for_number(" pid ");
    job.wait_for_line("workers.parked count=1");
    ::kill(first, SIGKILL);
    ::kill(job.wait_for_number(" pid "), SIGKILL);
    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.out(), "restart 2 in 0"));
}

TEST_CASE("an import that cannot be made early is named, and restarts are as ever") {
    std::string import;
    std::string reason;
    SUBCASE("it reads its rank") {
        import = "rank = os.environ.get('RANK')\n";
        reason = "early reads RANK when it is imported";
    }
    SUBCASE("it ends the process") {
        import = "if 'RANK' not in os.environ.keys(): raise SystemExit('no')\n";
        reason = "SystemExit in an import: no";
    }
    WarmJob warm{usual + import};
    auto job = warm.start();
    const int worker = job.wait_for_number(" pid ");
    job.wait_for_line("workers.not_parked reason=\"" + reason + "\"");
    ::kill(worker, SIGKILL);
    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.out(), "restart 1 in 0"));
}

TEST_CASE("a parked process does not outlive ddprun") {
    WarmJob warm{usual};
    auto job = warm.start();
    job.wait_for_line("workers.parked count=1");
    job.signal(SIGKILL);
    job.wait_for_code();
    CHECK(no_descendants_left());
}

TEST_CASE("--warm is for scripts and modules of Python") {
    Running program_job{program("ddprun"), {"--standalone", "--warm=1", "--no-python", "true"}};
    CHECK(program_job.wait_for_code() == 2);
    CHECK(contains(program_job.err(), "only Python scripts and modules can be started early"));
    Running nine{program("ddprun"), {"--standalone", "--warm=9", "--no-python", "true"}};
    CHECK(nine.wait_for_code() == 2);
    CHECK(contains(nine.err(), "--warm: '9': accepted are 0 and 1"));
}
