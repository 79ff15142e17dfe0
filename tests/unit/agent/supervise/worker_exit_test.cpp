// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/worker_exit.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <string>

using ddprun::agent::WorkerExit;

namespace {

// Packed like wait statuses of Linux; the process tests compare with real ones.
int exited_status(int code) {
    return code << 8;
}

int killed_status(int signal, bool core_dumped) {
    return signal | (core_dumped ? 0x80 : 0);
}

}  // namespace

TEST_CASE("every exit code is read from its wait status") {
    for (int code = 0; code < 256; ++code) {
        const int status = exited_status(code);
        const auto exit = WorkerExit::from_wait_status(status);

        CHECK(exit == WorkerExit(WorkerExit::Exited{code}));
        CHECK(exit.is_success() == (code == 0));
        CHECK(exit.signal() == std::nullopt);
        CHECK(exit.shell_code() == code);
        CHECK(exit.describe() == "exited with code " + std::to_string(code));
    }
}

TEST_CASE("every signal is read from its wait status, with and without a core dump") {
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
        for (const bool core_dumped : {false, true}) {
            const int status = killed_status(signal, core_dumped);
            const auto exit = WorkerExit::from_wait_status(status);

            CHECK(exit == WorkerExit(WorkerExit::Killed{signal, core_dumped}));
            CHECK_FALSE(exit.is_success());
            CHECK(exit.signal() == signal);
            CHECK(exit.shell_code() == 128 + signal);
        }
    }
}

TEST_CASE("exit code 15 and a death by SIGTERM are two things") {
    const auto exited = WorkerExit::from_wait_status(exited_status(15));
    const auto killed = WorkerExit::from_wait_status(killed_status(SIGTERM, false));

    CHECK(exited != killed);
    CHECK(exited.describe() == "exited with code 15");
    CHECK(killed.describe() == "killed by SIGTERM");
}

TEST_CASE("an end is described in words") {
    CHECK(
        WorkerExit(WorkerExit::Killed{SIGSEGV, true}).describe() ==
        "killed by SIGSEGV (core dumped)");
    CHECK(
        WorkerExit(WorkerExit::NotExecuted{ENOENT, "/no/such"}).describe() ==
        "could not be started: /no/such: No such file or directory");
}

TEST_CASE("a program that never ran has the code a shell gives it") {
    CHECK(WorkerExit(WorkerExit::NotExecuted{ENOENT, "/no/such"}).shell_code() == 127);
    CHECK(WorkerExit(WorkerExit::NotExecuted{EACCES, "/etc/passwd"}).shell_code() == 126);
    CHECK(WorkerExit(WorkerExit::NotStarted{"start /bin/x: no memory"}).shell_code() == 1);
    CHECK_FALSE(WorkerExit(WorkerExit::NotExecuted{EACCES, "/etc/passwd"}).is_success());
}
