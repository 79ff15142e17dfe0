// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/failure_report.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

using namespace ddprun::agent;

namespace {

const WorkerExit success{WorkerExit::Exited{0}};
const WorkerExit error{WorkerExit::Exited{1}};
const WorkerExit crash{WorkerExit::Killed{SIGSEGV, true}};
const WorkerExit by_sigkill{WorkerExit::Killed{SIGKILL}};
const WorkerExit by_sigterm{WorkerExit::Killed{SIGTERM}};
const WorkerExit by_sigint{WorkerExit::Killed{SIGINT}};
const WorkerExit by_sighup{WorkerExit::Killed{SIGHUP}};
const WorkerExit not_executed{WorkerExit::NotExecuted{2, "/bin/train"}};
const WorkerExit not_started{WorkerExit::NotStarted{"no memory"}};

struct Row {
    std::string story;
    ExitFacts facts;
    Blame blame;
};

}  // namespace

TEST_CASE("each exit is blamed by how it ended, on what was asked of it, on what is known") {
    using enum RootCause;
    const auto running = std::nullopt;
    const Row rows[] = {
        // While the workers run.
        {"a success", {success, running, false, unknown}, Blame::none},
        {"an error", {error, running, false, unknown}, Blame::own_failure},
        {"a crash", {crash, running, false, unknown}, Blame::own_failure},
        {"SIGKILL, by another", {by_sigkill, running, false, unknown}, Blame::own_failure},
        {"no process for it", {not_started, running, false, unknown}, Blame::own_failure},
        {"no program", {not_executed, running, false, unknown}, Blame::not_executable},
        {"SIGTERM", {by_sigterm, running, false, unknown}, Blame::perhaps_signalled},
        {"SIGINT", {by_sigint, running, false, unknown}, Blame::perhaps_signalled},
        {"SIGHUP", {by_sighup, running, false, unknown}, Blame::perhaps_signalled},
        // The cause of a death is being determined, or the death may be the scheduler's doing.
        {"second error", {error, running, false, in_question}, Blame::secondary_failure},
        {"second SIGTERM", {by_sigterm, running, false, in_question}, Blame::secondary_failure},
        {"second, no program",
         {not_executed, running, false, in_question},
         Blame::secondary_failure},
        // The root cause is known, but its notice is not sent yet.
        {"error after it", {error, running, false, known}, Blame::secondary_failure},
        {"SIGTERM after it", {by_sigterm, running, false, known}, Blame::secondary_failure},
        // All failures so far were caused by another worker's death.
        {"the crash behind it", {crash, running, false, not_reported}, Blame::own_failure},
        {"the error behind it", {error, running, false, not_reported}, Blame::own_failure},
        {"SIGTERM behind it", {by_sigterm, running, false, not_reported}, Blame::perhaps_signalled},

        // While the workers are being stopped.
        {"success at the stop", {success, SIGTERM, false, unknown}, Blame::none},
        {"the stop's signal", {by_sigterm, SIGTERM, false, unknown}, Blame::expected_exit},
        {"the stop's other signal", {by_sigint, SIGINT, false, unknown}, Blame::expected_exit},
        {"SIGKILL after the grace", {by_sigkill, SIGTERM, true, unknown}, Blame::expected_exit},
        {"SIGKILL as the stop", {by_sigkill, SIGKILL, false, unknown}, Blame::expected_exit},
        {"not started any more", {not_started, SIGTERM, false, unknown}, Blame::expected_exit},
        {"start cancelled", {not_executed, SIGTERM, false, known}, Blame::expected_exit},
        {"another polite signal", {by_sigint, SIGTERM, false, unknown}, Blame::secondary_failure},
        {"an error at the stop", {error, SIGTERM, false, unknown}, Blame::secondary_failure},
        {"a crash at the stop", {crash, SIGTERM, false, unknown}, Blame::secondary_failure},
        {"SIGKILL before the grace is over",
         {by_sigkill, SIGTERM, false, unknown},
         Blame::secondary_failure},
        {"a crash, and the cause is known",
         {crash, SIGTERM, false, known},
         Blame::secondary_failure},
        {"a crash, and another is being explained",
         {crash, SIGTERM, false, in_question},
         Blame::secondary_failure},
        // The stop was for a secondary failure; the crash, which takes longer, caused it.
        {"the late crash", {crash, SIGTERM, false, not_reported}, Blame::own_failure},
        {"the late SIGKILL", {by_sigkill, SIGTERM, false, not_reported}, Blame::own_failure},
        {"SIGKILL from here", {by_sigkill, SIGTERM, true, not_reported}, Blame::expected_exit},
        {"the stop's own signal", {by_sigterm, SIGTERM, false, not_reported}, Blame::expected_exit},
        {"a late polite signal",
         {by_sighup, SIGTERM, false, not_reported},
         Blame::secondary_failure},
        {"a late error", {error, SIGTERM, false, not_reported}, Blame::secondary_failure},
    };
    for (const auto& row : rows) {
        CAPTURE(row.story);
        CHECK(blame_of(row.facts) == row.blame);
    }
}
