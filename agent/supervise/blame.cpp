// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/blame.hpp"

#include <csignal>

namespace ddprun::agent {
namespace {

bool is_polite(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

bool is_not_executed(const WorkerExit& exit) {
    return std::holds_alternative<WorkerExit::NotExecuted>(exit.how());
}

bool has_not_run(const WorkerExit& exit) {
    return is_not_executed(exit) || std::holds_alternative<WorkerExit::NotStarted>(exit.how());
}

Blame blame_while_stopping(const ExitFacts& facts) {
    const auto signal = facts.exit.signal();
    const bool is_expected = has_not_run(facts.exit) || signal == facts.stop_signal ||
                             (facts.has_killed && signal == SIGKILL);
    if (is_expected) return Blame::expected_exit;
    // A crash takes longer to end: a worker that failed because of it may have ended first, and
    // have caused the stop.
    const bool is_crash = signal && !is_polite(*signal);
    return is_crash && facts.root_cause == RootCause::not_reported ? Blame::own_failure
                                                                   : Blame::secondary_failure;
}

}  // namespace

Blame blame_of(const ExitFacts& facts) {
    if (facts.exit.is_success()) return Blame::none;
    if (facts.stop_signal) return blame_while_stopping(facts);
    if (facts.root_cause == RootCause::in_question || facts.root_cause == RootCause::known)
        return Blame::secondary_failure;
    if (is_not_executed(facts.exit)) return Blame::not_executable;
    const auto signal = facts.exit.signal();
    return signal && is_polite(*signal) ? Blame::perhaps_signalled : Blame::own_failure;
}

}  // namespace ddprun::agent
