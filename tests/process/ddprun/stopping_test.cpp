// SPDX-License-Identifier: Apache-2.0
#include "agent/process/descendants.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

/// Prints "got NAME" for each signal, until there is a file `end`.
std::string teller(const TempDir& dir) {
    return "trap 'echo got USR1' USR1\ntrap 'echo got USR2' USR2\necho up\n"
           "until test -e " +
           (dir / "end").string() + "; do sleep 0.02; done";
}

}  // namespace

TEST_CASE("a signal to forward reaches every worker and stops nothing") {
    const TempDir dir;
    auto job =
        one_node(dir, {"--nproc-per-node=2", "--signals-to-forward=SIGUSR1,SIGUSR2"}, teller(dir));
    job.wait_for_line("up");
    job.wait_for_line("up");

    job.signal(SIGUSR1);
    job.wait_for_line("got USR1");
    job.wait_for_line("got USR1");
    job.signal(SIGUSR2);
    job.wait_for_line("got USR2");
    job.wait_for_line("got USR2");

    dir.write("end", "");
    CHECK(job.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a signal to forward that comes while workers are started reaches the later ones too") {
    // Workers start with the signal blocked, so that it stays pending until they wait for it.
    const std::string blocking =
        "import os, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "os.environ['LAUNCHER'] = str(os.getpid())\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n";
    const std::string worker =
        "[ $RANK != 0 ] || kill -USR1 $LAUNCHER\n"
        "exec python3 -S -c 'import os, signal\n"
        "signal.sigwait([signal.SIGUSR1])\n"
        "os.write(1, b\"got\\n\")'";
    Running job(
        "/usr/bin/env",
        {"python3",
         "-c",
         blocking,
         program("ddprun"),
         "--standalone",
         "--nproc-per-node=32",
         "--signals-to-forward=SIGUSR1",
         "--no-python",
         "sh",
         "-c",
         worker});

    for (int i = 0; i < 32; ++i)
        job.wait_for_line("got");
    CHECK(job.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a scheduler's warning that reaches every process harms none of ddprun's") {
    const TempDir dir;
    auto job = one_node(dir, {}, teller(dir));
    job.wait_for_line("up");

    for (const auto& process : list_descendants())
        if (std::string{process.command.data()} == "ddprun") ::kill(process.pid, SIGUSR1);
    job.signal(SIGUSR2);
    dir.write("end", "");

    CHECK(job.wait_for_code() == 0);
    CHECK_FALSE(contains(job.out(), "got"));
}

TEST_CASE("the background job of a script, SIGINT ignored, stops at once by SIGINT all the same") {
    Running::Options options;
    // The grace is much longer than the test, and must not be used up.
    options.arguments = {
        "--standalone",
        "--shutdown-timeout=3000",
        "--no-python",
        "sh",
        "-c",
        "echo up; exec tail -f /dev/null"};
    options.ignored_signals = {SIGINT, SIGQUIT};
    Running job(program("ddprun"), options);
    job.wait_for_line("up");

    job.signal(SIGINT);

    CHECK(job.wait_for_code() == 130);
    CHECK(no_descendants_left());
}

TEST_CASE("background children of a worker's shell, which ignore SIGINT and SIGQUIT, end soon") {
    for (const int signal : {SIGINT, SIGQUIT}) {
        const TempDir dir;
        // The grace is much longer than the test, and must not be used up.
        auto job = one_node(dir, {"--shutdown-timeout=3000"}, "tail -f /dev/null & echo up; wait");
        job.wait_for_line("up");

        job.signal(signal);

        CHECK(job.wait_for_code() == 128 + signal);
        CHECK(no_descendants_left());
    }
}

TEST_CASE("a worker ignores what ddprun was started with ignored and does not handle itself") {
    Running::Options options;
    options.arguments = {
        "--standalone",
        "--signals-to-handle=SIGTERM,SIGINT,SIGHUP",
        "--no-python",
        stub("print_state")};
    options.ignored_signals = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    Running job(program("ddprun"), options);

    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.out(), "ignored: 1 3\n"));
}

TEST_CASE("a signal to handle stops the job, the workers get the same one") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--signals-to-handle=SIGTERM,SIGUSR1"},
        "trap 'echo got USR1; exit 0' USR1\necho up\nwhile :; do sleep 0.02; done");
    job.wait_for_line("up");

    job.signal(SIGUSR1);

    CHECK(job.wait_for_code() == 128 + SIGUSR1);
    CHECK(contains(job.out(), "got USR1"));
    CHECK(no_descendants_left());
}

TEST_CASE("the data loaders of a worker that dies are gone before its next life begins") {
    const TempDir dir;
    const auto list = (dir / "loaders").string();
    const auto loader = dir.write_script(
        "loader", "#!/bin/sh\ntrap '' TERM\necho $$ >>" + list + "\nexec sleep 1001\n");
    const auto first_life =
        // One process in its worker's group, one in another group and one in another session.
        loader + " &\nsh -mc '" + loader + " & wait' &\nsetsid " + loader +
        " &\nuntil test \"$(cat " + list + " 2>/dev/null | wc -l)\" = 3; do sleep 0.02; done\n" +
        "kill -KILL $$\n";
    const auto second_life =
        "for pid in $(cat " + list +
        "); do grep -s '^State:.[^Z]' /proc/$pid/status && exit 5; done\nexit 0\n";
    auto job = one_node(
        dir,
        {"--max-restarts=1", "--shutdown-timeout=1"},
        "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then\n" + first_life + "fi\n" + second_life);

    CHECK(job.wait_for_code() == 0);
    CHECK(left_behind().empty());
}

TEST_CASE("what cannot be killed is named and does not hang the exit") {
    if (::geteuid() != 0) return skip("a process that we may not kill needs root");
    const TempDir dir;
    // Not stuck in the kernel, but equally unkillable: it belongs to root, and ddprun does not.
    const auto deaf = (dir / "deaf").string();
    std::filesystem::copy_file(stub("belong_to_root"), deaf);
    REQUIRE(::chown(deaf.c_str(), 0, 0) == 0);
    REQUIRE(::chmod(deaf.c_str(), 04755) == 0);
    // Other users may not be able to read the build folder.
    const auto own = (dir / "ddprun").string();
    std::filesystem::copy_file(program("ddprun"), own);
    REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
    Running::Options how;
    how.arguments = {
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--",
        own,
        "--standalone",
        "--shutdown-timeout=0",
        "--no-python",
        deaf};
    how.environment = {{"TMPDIR", "/tmp"}};
    how.directory = "/";
    Running job("setpriv", how);
    const auto line = job.wait_for_line("^ready |^not root");
    if (line == "not root") return skip("set-user-id has no effect in the temporary folder");
    const int worker = std::stoi(line.substr(std::string{"ready"}.size()));

    job.signal(SIGTERM);

    CHECK(job.wait_for_code() == 143);
    CHECK(contains(job.err(), "SIGKILL has no effect"));
    CHECK(contains(
        job.err(), "ddprun: cannot be killed: deaf (pid " + std::to_string(worker) + ", state S)"));
    CHECK(::kill(worker, SIGKILL) == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a restart delay is said, and Ctrl-C ends it at once") {
    const TempDir dir;
    auto job = one_node(dir, {"--max-restarts=3", "--restart-delay=1000"}, "exit 9");
    job.wait_for_line("restart 1 of 3 after a pause of 1000 s");

    job.signal(SIGINT);

    CHECK(job.wait_for_code() == 130);
}

TEST_CASE("a restart after a delay has the next number; a final exit code has none") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--max-restarts=3", "--restart-delay=0.1:0.2"},
        "echo life $TORCHELASTIC_RESTART_COUNT\nexit $((9 - 7 * (TORCHELASTIC_RESTART_COUNT / "
        "2)))");

    CHECK(job.wait_for_code() == 2);
    CHECK(job.out() == "life 0\nlife 1\nlife 2\n");
    CHECK(contains(job.err(), "no restart after exit"));
}
