// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/native_stacks.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::launcher::ctl;

TEST_CASE("of a program's output the stacks are shown, not what it says about itself") {
    const std::string by_gdb =
        "[New LWP 17095]\n"
        "Using host libthread_db library \"/lib/libthread_db.so.1\".\n"
        "0x00007f3a in clock_nanosleep ()\n"
        "\n"
        "Thread 1 (Thread 0x7f3a (LWP 17093) \"python\"):\n"
        "#0  0x00007f3a in clock_nanosleep ()\n"
        "#1  0x00005500 in _start ()\n"
        "\n"
        "Thread 2 (Thread 0x7f39 (LWP 17095) \"python\"):\n"
        "#0  futex_wait ()\n"
        "[Inferior 1 (process 17093) detached]\n";
    CHECK(
        stacks_in(by_gdb) ==
        "Thread 1 (Thread 0x7f3a (LWP 17093) \"python\"):\n"
        "#0  0x00007f3a in clock_nanosleep ()\n"
        "#1  0x00005500 in _start ()\n"
        "\n"
        "Thread 2 (Thread 0x7f39 (LWP 17095) \"python\"):\n"
        "#0  futex_wait ()\n");
    CHECK(
        stacks_in(
            "Process 7: python\nPython v3.11\n\nThread 7 (idle): \"Main\"\n    read (a.py:3)\n") ==
        "Thread 7 (idle): \"Main\"\n    read (a.py:3)\n");
    CHECK(stacks_in("").empty());
    CHECK(stacks_in("No symbol table is loaded.\n").empty());
}

TEST_CASE("what a program has failed with is its last line") {
    CHECK(
        problem_of(NativeTool::gdb, "warning: no\nptrace: Operation not permitted.\n\n") ==
        "gdb: ptrace: Operation not permitted.");
    CHECK(problem_of(NativeTool::py_spy, "") == "py-spy: it has said nothing");
}

TEST_CASE("each program is asked for all threads of the process") {
    CHECK(
        command_of(NativeTool::py_spy, 17) ==
        std::vector<std::string>{"py-spy", "dump", "--native", "--pid", "17"});
    const auto gdb = command_of(NativeTool::gdb, 17);
    CHECK(gdb.front() == "gdb");
    CHECK(gdb.back() == "thread apply all -ascending bt 64");
    CHECK(gdb[gdb.size() - 3] == "17");
}
