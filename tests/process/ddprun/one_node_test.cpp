// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

using namespace ddprun::test;

TEST_CASE("each worker of a node sees its own ranks") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--nproc-per-node=3"},
        "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
        "$ROLE_RANK $ROLE_WORLD_SIZE $ROLE_NAME");

    CHECK(job.wait_for_code() == 0);
    CHECK(
        sorted_lines(job.out()) ==
        Words{"0 0 3 3 0 1 0 3 default", "1 1 3 3 0 1 1 3 default", "2 2 3 3 0 1 2 3 default"});
    CHECK(no_descendants_left());
}

TEST_CASE("a worker sees torch's variables with torch's spellings") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--rdzv-id=x", "--max-restarts=3"},
        "echo $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS "
        "$TORCHELASTIC_USE_AGENT_STORE $TORCH_NCCL_ASYNC_ERROR_HANDLING $MASTER_ADDR "
        "$DDPRUN_ROUND\n"
        "test -n \"$TORCHELASTIC_RUN_ID\" && test -n \"$MASTER_PORT\" && "
        "test -n \"$DDPRUN_INCARNATION\" && test -n \"$TORCHELASTIC_ERROR_FILE\" && "
        "test ! -e \"$TORCHELASTIC_ERROR_FILE\" && echo all there");

    CHECK(job.wait_for_code() == 0);
    CHECK(job.out() == "0 3 True 1 127.0.0.1 0\nall there\n");
}

TEST_CASE("a job of one node has its store on the loopback interface only") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {},
        "port=$(printf %04X $MASTER_PORT)\n"
        "cat /proc/net/tcp /proc/net/tcp6 | grep -o \" [0-9A-F]*:$port 0[0-9A-F:]* 0A \" |"
        " sed \"s/:.*//;s/ //\"");

    CHECK(job.wait_for_code() == 0);
    CHECK(job.out() == "0100007F\n");
}

TEST_CASE("ddprun raises its limit of open files for itself, and not for its workers") {
    Running job{
        "/bin/sh",
        {"-c",
         "ulimit -Sn 200; exec \"$0\" --standalone --no-python sh -c \"$1\"",
         program("ddprun"),
         "echo worker $(ulimit -Sn) of $(ulimit -Hn); "
         "awk '/Max open files/ {print \"agent \" $4 \" of \" $5}' /proc/$PPID/limits"}};

    CHECK(job.wait_for_code() == 0);
    const auto lines = sorted_lines(job.out());
    REQUIRE(lines.size() == 2);
    const auto hard = lines[1].substr(lines[1].rfind(' ') + 1);
    CHECK(lines[0] == "agent " + hard + " of " + hard);
    CHECK(lines[1] == "worker 200 of " + hard);
}

TEST_CASE("what stands after the script is handed through untouched") {
    const TempDir dir;
    const auto script =
        dir.write_script("show", "#!/bin/sh\nfor a in \"$@\"; do echo \"[$a]\"; done\n");
    Running job{
        program("ddprun"),
        {"--standalone", "--no-python", script, "--nnodes=9", "--", "-h", "", "a b", "--x=[1,2]"}};

    CHECK(job.wait_for_code() == 0);
    CHECK(job.out() == "[--nnodes=9]\n[--]\n[-h]\n[]\n[a b]\n[--x=[1,2]]\n");
}

TEST_CASE("the first worker to fail ends the others, is named, and gives its exit code") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--nproc-per-node=3"},
        "if [ $RANK = 1 ]; then echo out of layers >&2; exit 7; fi\n" + wait_for_ever);

    CHECK(job.wait_for_code() == 7);
    CHECK(contains(job.err(), "rank 1"));
    CHECK(contains(job.err(), "exited with code 7"));
    CHECK(contains(job.err(), "out of layers"));
    CHECK(no_descendants_left());
}

TEST_CASE("a failed worker's job starts again while the budget allows") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--nproc-per-node=2", "--max-restarts=2"},
        "echo life $TORCHELASTIC_RESTART_COUNT round $DDPRUN_ROUND\n"
        "if [ $TORCHELASTIC_RESTART_COUNT = 2 ]; then exit 0; fi\n"
        "if [ $RANK = 0 ]; then kill -SEGV $$; fi\n" +
            wait_for_ever);

    CHECK(job.wait_for_code() == 0);
    // Another worker may be stopped before it has printed anything, but not in the last round.
    CHECK(contains(job.out(), "life 0 round 0\n"));
    CHECK(contains(job.out(), "life 1 round 1\n"));
    CHECK(contains(job.out(), "life 2 round 2\nlife 2 round 2\n"));
    CHECK(no_descendants_left());
}

TEST_CASE("each round has a store of its own") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--max-restarts=1"},
        "echo port $MASTER_PORT\nexit $((1 - TORCHELASTIC_RESTART_COUNT))");

    CHECK(job.wait_for_code() == 0);
    const auto ports = sorted_lines(job.out());
    REQUIRE(ports.size() == 2);
    CHECK(ports[0] != ports[1]);
}

TEST_CASE("a worker killed by a signal gives 128 and the signal") {
    const TempDir dir;
    auto job = one_node(dir, {}, "kill -KILL $$");

    CHECK(job.wait_for_code() == 128 + SIGKILL);
    CHECK(contains(job.err(), "killed by SIGKILL"));
}

TEST_CASE("an error file is on the screen and off the disk") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {},
        "echo $TORCHELASTIC_ERROR_FILE\n"
        "echo '{\"message\": {\"message\": \"ValueError: bad batch\", \"extraInfo\": "
        "{\"py_callstack\": \"Traceback: line 3\", \"timestamp\": \"1\"}}}' "
        "> $TORCHELASTIC_ERROR_FILE\nexit 1");

    CHECK(job.wait_for_code() == 1);
    CHECK(contains(job.err(), "ValueError: bad batch"));
    CHECK(contains(job.err(), "Traceback: line 3"));
    const auto file = job.out().substr(0, job.out().find('\n'));
    REQUIRE(contains(file, "/ddprun-"));
    CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("Ctrl-C cancels the job after the workers have got the signal") {
    Running job{
        program("ddprun"),
        {"--standalone", "--nproc-per-node=2", "--no-python", stub("print_signal"), "exit"}};
    job.wait_for_line("up");
    job.wait_for_line("up");

    job.signal(SIGINT);

    CHECK(job.wait_for_code() == 130);
    CHECK(sorted_lines(job.out()) == Words{"got signal", "got signal", "up", "up"});
    CHECK(no_descendants_left());
}

TEST_CASE("SIGTERM is sent to the workers and the job is cancelled") {
    Running job{program("ddprun"), {"--standalone", "--no-python", stub("print_signal"), "exit"}};
    job.wait_for_line("up");

    job.signal(SIGTERM);

    CHECK(job.wait_for_code() == 143);
    CHECK(job.out() == "up\ngot signal\n");
    CHECK(no_descendants_left());
}

TEST_CASE("a worker that ignores the first signal is killed when the grace is over") {
    Running job{
        program("ddprun"),
        {"--standalone", "--shutdown-timeout=3", "--no-python", stub("print_signal"), "stay"}};
    job.wait_for_line("up");

    job.signal(SIGTERM);

    CHECK(job.wait_for_code() == 143);
    CHECK(contains(job.out(), "got signal\n"));
    CHECK(no_descendants_left());
}

TEST_CASE("a second Ctrl-C kills at once") {
    Running job{
        program("ddprun"),
        {"--standalone", "--shutdown-timeout=1000", "--no-python", stub("print_signal"), "stay"}};
    job.wait_for_line("up");
    job.signal(SIGINT);
    job.wait_for_line("got signal");
    job.wait_for_line("job.interrupted.*a second Ctrl-C kills them at once");

    job.signal(SIGINT);

    CHECK(job.wait_for_code() == 130);
    CHECK(no_descendants_left());
}

TEST_CASE("a killed ddprun leaves no worker and no grandchild") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--nproc-per-node=2"},
        "setsid sh -c 'echo grandchild; exec tail -f /dev/null' &\n" + wait_for_ever);
    job.wait_for_line("grandchild");
    job.wait_for_line("grandchild");

    job.signal(SIGKILL);

    CHECK(job.wait_for_code() == 128 + SIGKILL);
    CHECK(no_descendants_left());
}

TEST_CASE("a finished worker's own children are gone with the job") {
    const TempDir dir;
    auto job = one_node(dir, {}, "setsid tail -f /dev/null &\nexit 0");

    CHECK(job.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("workers share the terminal and its input") {
    const TempDir dir;
    const auto script = dir.write_script(
        "ask", "#!/bin/sh\ntest -t 0 && test -t 1 && test -t 2 && read word && echo got $word\n");
    Running::Options options;
    options.arguments = {"--standalone", "--no-python", script};
    options.has_terminal = true;
    Running job{program("ddprun"), options};

    job.type("hello\n");

    job.wait_for_line("got hello");
    CHECK(job.wait_for_code() == 0);
}

TEST_CASE("breakpoint() in a one-worker job answers at the terminal") {
    const TempDir dir;
    const auto script =
        dir.write("debugged.py", "x = 17\nbreakpoint()\ny = x + 1\nprint('end', y)\n");
    Running::Options options;
    options.arguments = {"--standalone", script};
    options.has_terminal = true;
    Running job{program("ddprun"), options};

    // The prompt has no line end: each answer shows that the prompt was shown.
    job.type("n\n");
    job.type("c\n");

    job.wait_for_line("end 18");
    CHECK(job.wait_for_code() == 0);
    std::size_t prompts = 0;
    for (std::size_t at = 0; (at = job.out().find("(Pdb)", at)) != std::string::npos; ++at)
        ++prompts;
    CHECK(prompts == 2);
}
