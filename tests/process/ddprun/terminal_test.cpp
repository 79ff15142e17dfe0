// SPDX-License-Identifier: Apache-2.0
#include "agent/process/descendants.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <sys/types.h>

#include <algorithm>
#include <csignal>
#include <string_view>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

const std::string ctrl_c = "\x03";
const std::string ctrl_z = "\x1a";

/// A shell with job control on its own terminal. When the job is stopped, the shell prints
/// "stopped" and waits for a line before it continues the job in the foreground.
Running shell_with_job(const Words& options, const Words& command) {
    Running::Options how;
    how.has_terminal = true;
    how.arguments = {
        "-c",
        "set -m\n\"$0\" \"$@\"\ncode=$?\n"
        "while test $code = 148; do\n"
        "  echo stopped; read line; fg >/dev/null; code=$?\n"
        "done\necho code $code",
        program("ddprun"),
        "--standalone",
        "--no-python"};
    how.arguments.insert(how.arguments.end() - 1, options.begin(), options.end());
    how.arguments.insert(how.arguments.end(), command.begin(), command.end());
    return Running("/bin/sh", how);
}

std::vector<char> states_of(std::string_view command) {
    std::vector<char> states;
    for (const auto& process : list_descendants())
        if (command == process.command.data()) states.push_back(process.state);
    std::sort(states.begin(), states.end());
    return states;
}

bool are_stopped(std::string_view command) {
    const auto states = states_of(command);
    return !states.empty() &&
           std::all_of(states.begin(), states.end(), [](char state) { return state == 'T'; });
}

bool are_running(std::string_view command) {
    const auto states = states_of(command);
    return !states.empty() && std::find(states.begin(), states.end(), 'T') == states.end();
}

}  // namespace

TEST_CASE("Ctrl-Z stops the workers and their children with ddprun, fg lets all of them go on") {
    const TempDir dir;
    const auto script = dir.write_script(
        "work", "#!/bin/sh\nsetsid tail -f /dev/null &\necho up\nexec tail -f /dev/null\n");
    // A shell starts background jobs with SIGINT ignored, so they run until the end of the grace.
    auto shell = shell_with_job({"--nproc-per-node=2", "--shutdown-timeout=1"}, {script});
    shell.wait_for_line("up");
    shell.wait_for_line("up");
    REQUIRE(holds_within(fact_timeout, [] { return states_of("tail").size() == 4; }));

    for (int time = 0; time < 2; ++time) {
        shell.type(ctrl_z);
        shell.wait_for_line("stopped");
        // The agent keeps its lease.
        CHECK(holds_within(fact_timeout, [] { return are_stopped("tail"); }));
        const auto own = states_of("ddprun");
        REQUIRE(own.size() == 2);
        CHECK(std::count(own.begin(), own.end(), 'T') == 1);

        shell.type("\n");
        CHECK(holds_within(fact_timeout, [] { return are_running("tail"); }));
        CHECK(holds_within(fact_timeout, [] { return are_running("ddprun"); }));
    }

    shell.type(ctrl_c);
    shell.wait_for_line("code 130");
    CHECK(shell.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a stopped job that gets SIGTERM ends when it is continued") {
    const TempDir dir;
    const auto script = dir.write_script("work", "#!/bin/sh\necho up\nexec tail -f /dev/null\n");
    auto shell = shell_with_job({}, {script});
    shell.wait_for_line("up");
    shell.type(ctrl_z);
    shell.wait_for_line("stopped");

    for (const auto& process : list_descendants())
        if (process.state == 'T' && std::string_view{process.command.data()} == "ddprun")
            ::kill(process.pid, SIGTERM);
    shell.type("\n");

    shell.wait_for_line("code 143");
    CHECK(no_descendants_left());
}

TEST_CASE("without a shell that could continue it ddprun is not stopped for good") {
    // A session leader's group is orphaned: the kernel does not stop it.
    const TempDir dir;
    Running::Options how;
    how.has_terminal = true;
    how.arguments = {
        "--standalone",
        "--no-python",
        dir.write_script("work", "#!/bin/sh\necho up\nexec tail -f /dev/null\n")};
    Running job(program("ddprun"), how);
    job.wait_for_line("up");

    job.type(ctrl_z);
    job.type(ctrl_c);

    CHECK(job.wait_for_code() == 130);
    CHECK(no_descendants_left());
}

TEST_CASE("at a terminal the first Ctrl-C asks and the second kills") {
    auto shell = shell_with_job({"--shutdown-timeout=1000"}, {stub("print_signal"), "stay"});
    shell.wait_for_line("up");
    shell.type(ctrl_c);
    // The terminal echoes the key before it.
    shell.wait_for_line("got signal");

    shell.type(ctrl_c);

    shell.wait_for_line("code 130");
    CHECK(no_descendants_left());
}

TEST_CASE("under nohup the job outlives its terminal") {
    const TempDir dir;
    const auto go = (dir / "go").string();
    const auto result = (dir / "result").string();
    const auto script = dir.write_script(
        "work",
        "#!/bin/sh\necho up\nuntil test -e " + go + "; do sleep 0.02; done\necho done >" + result +
            "\n");
    Running::Options how;
    how.has_terminal = true;
    how.directory = dir.path().string();
    // nohup redirects output to a file if it is a terminal.
    how.arguments = {program("ddprun"), "--standalone", "--no-python", script};
    Running job("nohup", how);
    REQUIRE(
        holds_within(fact_timeout, [&] { return contains(read_file(dir / "nohup.out"), "up"); }));

    job.hang_up();
    dir.write("go", "");

    CHECK(job.wait_for_code() == 0);
    CHECK(read_file(result) == "done\n");
    CHECK(no_descendants_left());
}

TEST_CASE("without nohup a closed terminal ends the job") {
    Running::Options how;
    how.has_terminal = true;
    how.arguments = {"--standalone", "--no-python", stub("print_signal"), "stay"};
    Running job(program("ddprun"), how);
    job.wait_for_line("up");

    job.hang_up();

    CHECK(job.wait_for_code() == 129);
    CHECK(no_descendants_left());
}
