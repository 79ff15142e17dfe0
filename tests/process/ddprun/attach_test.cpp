// SPDX-License-Identifier: Apache-2.0
#include "agent/health/kernel_facts.hpp"
#include "agent/process/descendants.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <sys/ioctl.h>
#include <sys/types.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

const std::string ctrl_c = "\x03";
const std::string ctrl_z = "\x1a";
const std::string python = "/usr/bin/python3";

/// A shell with job control on its own terminal, which reads a line before it continues a stopped
/// job. `begin` is the command that starts the job; the job's words are its arguments.
Running shell_with_job(const Words& words, const std::string& begin = "\"$0\" \"$@\"") {
    Running::Options how;
    how.has_terminal = true;
    how.arguments = {
        "-c",
        "set -m\n" + begin +
            "\ncode=$?\nwhile test $code = 148; do\n"
            "  echo stopped; read line; fg >/dev/null; code=$?\ndone\necho code $code",
        program("ddprun"),
        "--standalone"};
    how.arguments = how.arguments + words;
    return Running("/bin/sh", how);
}

bool has_echo(const Running& shell) {
    termios modes{};
    return ::tcgetattr(shell.terminal(), &modes) == 0 && (modes.c_lflag & ECHO) != 0;
}

bool is_any_stopped(std::string_view command) {
    const auto all = list_descendants();
    return std::any_of(all.begin(), all.end(), [&](const auto& process) {
        return command == process.command.data() && process.state == 'T';
    });
}

/// Whether a process named `command` waits for input as readline does. A signal between its prompt
/// and that system call only sets a flag in Python and interrupts nothing.
bool waits_in_select(std::string_view command) {
    const auto all = list_descendants();
    return std::any_of(all.begin(), all.end(), [&](const auto& process) {
        if (command != process.command.data()) return false;
        const auto path = "/proc/" + std::to_string(process.pid) + "/syscall";
        const auto call = health::parse_system_call(read_file(path));
        return call && contains(health::name_of(*call), "select");
    });
}

/// Writes for each rank what its three streams are: "1" a terminal, "0" something else.
const std::string say_what_is_a_terminal =
    "said=; for fd in 0 1 2; do test -t $fd && said=${said}1 || said=${said}0; done\n"
    "echo $said >\"$RESULTS/$RANK\"";

std::string terminals_of(const TempDir& dir, int rank) {
    auto text = read_file(dir / std::to_string(rank));
    std::erase(text, '\n');
    return text;
}

}  // namespace

TEST_CASE("breakpoint() works in rank 1 of 2 at a terminal") {
    if (::access(python.c_str(), X_OK) != 0) return skip_even_as_root("no " + python);
    const TempDir dir;
    const auto script = dir.write_script(
        "train.py",
        "import os\nrank = int(os.environ['RANK'])\nprint('begin', rank, flush=True)\n"
        "if rank == 1:\n    breakpoint()\nprint('end', rank, rank + 41, flush=True)\n");
    auto shell = shell_with_job({"--nproc-per-node=2", "--python=" + python, "--attach=1", script});
    shell.wait_for_line("rank.attached.*rank=1");
    // Python 3.13 stops at the call, older ones behind it.
    shell.wait_for_line("^-> (print|breakpoint)");

    shell.type("p 'value', rank + 1000\n");
    shell.wait_for_line("'value', 1001");
    REQUIRE(holds_within(fact_timeout, [] { return waits_in_select("python3"); }));
    // Ctrl-C is for the debugger, not for the job.
    shell.type(ctrl_c);
    shell.wait_for_line("KeyboardInterrupt");
    shell.type("p 'still', rank + 2000\n");
    shell.wait_for_line("'still', 2001");
    shell.type("c\n");

    shell.wait_for_line("end 1 42");
    shell.wait_for_line("code 0");
    CHECK(shell.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a pipe is handed to the attached rank, the others read /dev/null") {
    const TempDir dir;
    const auto script = dir.write_script(
        "work", "#!/bin/sh\nread line\necho \"$RANK $(readlink /proc/$$/fd/0) got $line\"\n");
    Running shell(
        "/bin/sh",
        {"-c",
         "echo hello | \"$0\" \"$@\"",
         program("ddprun"),
         "--standalone",
         "--nproc-per-node=3",
         "--attach=1",
         "--no-python",
         script});
    CHECK(shell.wait_for_code() == 0);
    const auto lines = sorted_lines(shell.out());
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] == "0 /dev/null got ");
    CHECK(contains(lines[1], "1 pipe:"));
    CHECK(contains(lines[1], " got hello"));
    CHECK(lines[2] == "2 /dev/null got ");
}

TEST_CASE("of two nodes with the option only the one that has the rank hands its input on") {
    const TempDir dir;
    const auto script =
        dir.write_script("work", "#!/bin/sh\nread line\necho \"$RANK got $line\"\n");
    const Rendezvous rendezvous;
    const auto node = [&](int rank) {
        const Words options{
            "--nnodes=2",
            "--node-rank=" + std::to_string(rank),
            "--attach=1",
            "--no-python",
            script};
        return Running(
            "/bin/sh",
            Words{"-c", "echo hello | \"$0\" \"$@\"", program("ddprun")} +
                rendezvous.options(options));
    };
    auto first = node(0);
    auto second = node(1);
    CHECK(first.wait_for_code() == 0);
    CHECK(second.wait_for_code() == 0);
    CHECK(first.out() == "0 got \n");
    CHECK(second.out() == "1 got hello\n");
}

TEST_CASE("without --attach a worker's stream is a terminal where ddprun's is, as torchrun's") {
    const TempDir dir;
    const auto script = dir.write_script("say", "#!/bin/sh\n" + say_what_is_a_terminal + "\n");
    for (const int count : {1, 2}) {
        const auto run = [&](bool has_terminal, const std::string& streams) {
            Running::Options how;
            how.has_terminal = has_terminal;
            how.environment = {{"RESULTS", dir.path().string()}};
            how.arguments = {
                "-c",
                "\"$0\" \"$@\"" + streams,
                program("ddprun"),
                "--standalone",
                "--nproc-per-node=" + std::to_string(count),
                "--no-python",
                script};
            CHECK(Running("/bin/sh", how).wait_for_code() == 0);
            return terminals_of(dir, count - 1);
        };
        CHECK(run(true, "") == "111");
        CHECK(run(true, " </dev/null") == "011");
        CHECK(run(true, " >/dev/null") == "101");
        CHECK(run(true, " 2>/dev/null") == "110");
        CHECK(run(true, " | cat") == "101");
        CHECK(run(false, " | cat") == "000");
        CHECK(run(false, " </dev/null >/dev/null 2>&1") == "000");
    }
}

TEST_CASE("the attached rank is at the terminal itself, whatever becomes of the others' output") {
    const TempDir dir;
    const auto script =
        dir.write_script("say", "#!/bin/sh\n" + say_what_is_a_terminal + "\necho said $RANK\n");
    Running::Options how;
    how.has_terminal = true;
    how.environment = {{"RESULTS", dir.path().string()}};
    how.arguments = {
        "--standalone",
        "--nproc-per-node=2",
        "--attach=1",
        "--tee=3",
        "--log-dir=" + (dir / "logs").string(),
        "--no-python",
        script};
    Running job(program("ddprun"), how);
    CHECK(job.wait_for_code() == 0);
    CHECK(terminals_of(dir, 0) == "000");
    CHECK(terminals_of(dir, 1) == "111");
    job.wait_for_line("^said 1");
    job.wait_for_line(":said 0");
}

TEST_CASE("a Ctrl-C is for the attached rank; two in a row are for the job, and one more kills") {
    auto shell = shell_with_job({"--attach=0", "--no-python", stub("print_signal"), "stay"});
    shell.wait_for_line("up");
    // Each one reaches the rank, even one that is for the job. On a slow machine two of them may be
    // far apart.
    int presses = 0;
    do {
        ++presses;
        shell.type(ctrl_c);
    } while (contains(shell.wait_for_line("got signal|code 130"), "got signal"));
    CHECK(presses >= 3);
    CHECK(contains(shell.out(), "job.interrupted"));
    CHECK(contains(shell.out(), "code 130"));
    CHECK(no_descendants_left());
}

TEST_CASE("an attached rank that dies of its Ctrl-C ends the job, restarts or not") {
    const TempDir dir;
    const auto script = dir.write_script("work", "#!/bin/sh\necho up\nexec tail -f /dev/null\n");
    auto shell = shell_with_job(
        {"--attach=0", "--nproc-per-node=2", "--max-restarts=5", "--no-python", script});
    shell.wait_for_line("up");
    shell.wait_for_line("up");
    shell.type(ctrl_c);
    shell.wait_for_line("code 130");
    CHECK(shell.wait_for_code() == 0);
    CHECK_FALSE(contains(shell.out(), "restart 1"));
    CHECK(no_descendants_left());
}

TEST_CASE("SIGTERM ends a job whose attached rank waits for its user") {
    const TempDir dir;
    const auto script = dir.write_script("work", "#!/bin/sh\necho up\nread line\n");
    Running::Options how;
    how.has_terminal = true;
    how.arguments = {"--standalone", "--attach=0", "--no-python", script};
    Running job(program("ddprun"), how);
    job.wait_for_line("up");
    job.signal(SIGTERM);
    CHECK(job.wait_for_code() == 143);
    CHECK(no_descendants_left());
}

TEST_CASE("the terminal has its modes again when the attached rank was killed") {
    const TempDir dir;
    const auto script = dir.write_script(
        "work",
        "#!/bin/sh\nif test $TORCHELASTIC_RESTART_COUNT = 0; then\n"
        "  stty -echo; echo off; read line; kill -9 $$\nfi\n"
        "stty -a | grep -q -- ' -echo ' && echo stays off\necho again; read line\nstty -echo\n");
    auto shell = shell_with_job({"--attach=0", "--max-restarts=1", "--no-python", script});
    shell.wait_for_line("^off");
    CHECK_FALSE(has_echo(shell));
    shell.type("\n");
    shell.wait_for_line("^again");
    CHECK(has_echo(shell));
    CHECK_FALSE(contains(shell.out(), "stays off"));
    // ddprun restores the modes also when the worker ends without restoring them.
    shell.type("\n");
    shell.wait_for_line("code 0");
    CHECK(has_echo(shell));
}

TEST_CASE("while ddprun is stopped the shell has the terminal's modes, then the rank has its own") {
    const TempDir dir;
    const auto script = dir.write_script(
        "work", "#!/bin/sh\nstty -echo; echo off; read line; echo \"got $line\"\n");
    auto shell = shell_with_job({"--attach=0", "--no-python", script});
    shell.wait_for_line("^off");
    shell.type(ctrl_z);
    shell.wait_for_line("stopped");
    CHECK(has_echo(shell));

    shell.type("for the shell\n");
    CHECK(holds_within(fact_timeout, [&] { return !has_echo(shell); }));
    shell.type("for the rank\n");
    shell.wait_for_line("got for the rank");
    shell.wait_for_line("code 0");
}

TEST_CASE("in the background a job with an attached rank waits for fg, and reads nothing") {
    const TempDir dir;
    const auto script = dir.write_script("work", "#!/bin/sh\nread line; echo \"got $line\"\n");
    auto shell = shell_with_job(
        {"--attach=0", "--no-python", script},
        "\"$0\" \"$@\" &\nread line; echo \"shell has $line\"; fg >/dev/null");
    REQUIRE(holds_within(fact_timeout, [] { return is_any_stopped("ddprun"); }));
    shell.type("one\n");
    shell.wait_for_line("shell has one");
    shell.type("two\n");
    shell.wait_for_line("got two");
    shell.wait_for_line("code 0");
    CHECK(no_descendants_left());
}

TEST_CASE("a changed size of the window is announced to the attached rank") {
    const TempDir dir;
    const auto script = dir.write_script(
        "work", "#!/bin/sh\ntrap 'stty size; exit' WINCH\necho up\nwhile :; do sleep 0.05; done\n");
    auto shell = shell_with_job({"--attach=0", "--no-python", script});
    shell.wait_for_line("up");
    const winsize size{33, 77, 0, 0};
    REQUIRE(::ioctl(shell.terminal(), TIOCSWINSZ, &size) == 0);
    shell.wait_for_line("33 77");
    shell.wait_for_line("code 0");
}
