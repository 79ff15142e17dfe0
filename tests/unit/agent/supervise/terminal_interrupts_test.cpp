// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/terminal_interrupts.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;
using Receiver = TerminalInterrupts::Receiver;

namespace {

constexpr Instant start{};
const WorkerExit killed{WorkerExit::Killed{SIGINT}};

}  // namespace

TEST_CASE("a Ctrl-C now and then is for the attached rank, however many come") {
    TerminalInterrupts interrupts;
    for (int time = 0; time < 5; ++time)
        CHECK(
            interrupts.next(true, start + time * limits::repeated_interrupt_time) ==
            Receiver::rank);
}

TEST_CASE("a Ctrl-C right behind another one is for the job, and so are all after it") {
    TerminalInterrupts interrupts;
    CHECK(interrupts.next(true, start) == Receiver::rank);
    CHECK(interrupts.next(true, start + limits::repeated_interrupt_time - 1ms) == Receiver::job);
    CHECK(interrupts.next(true, start + 1h) == Receiver::job);
}

TEST_CASE("without a process of the rank a Ctrl-C is for the job") {
    TerminalInterrupts interrupts;
    CHECK(interrupts.next(false, start) == Receiver::job);
    CHECK(interrupts.next(true, start + 1h) == Receiver::job);
}

TEST_CASE("only a rank that died of its own Ctrl-C ends the job") {
    TerminalInterrupts interrupts;
    CHECK_FALSE(interrupts.is_for_job(killed));
    CHECK(interrupts.next(true, start) == Receiver::rank);
    CHECK(interrupts.is_for_job(killed));
    CHECK_FALSE(interrupts.is_for_job(WorkerExit{WorkerExit::Exited{1}}));
    CHECK_FALSE(interrupts.is_for_job(WorkerExit{WorkerExit::Killed{SIGTERM}}));
}
