// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/worker_exit.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <cerrno>
#include <system_error>

namespace ddprun::agent {
namespace {

// The layout of a wait status on Linux. <sys/wait.h> has macros for it, but this folder is pure.
constexpr int signal_bits = 0x7f;
constexpr int core_bit = 0x80;
constexpr int code_shift = 8;
constexpr int code_bits = 0xff;

}  // namespace

WorkerExit WorkerExit::from_wait_status(int status) {
    const int signal = status & signal_bits;
    if (signal != 0) return How{Killed{signal, (status & core_bit) != 0}};
    return How{Exited{(status >> code_shift) & code_bits}};
}

bool WorkerExit::is_success() const {
    return how_ == How{Exited{0}};
}

std::optional<int> WorkerExit::signal() const {
    if (const auto* killed = std::get_if<Killed>(&how_)) return killed->signal;
    return std::nullopt;
}

std::string WorkerExit::describe() const {
    return std::visit(
        Overloaded{
            [](const Exited& exit) { return "exited with code " + std::to_string(exit.code); },
            [](const Killed& death) {
                return "killed by " + signal_name(death.signal) +
                       (death.core_dumped ? " (core dumped)" : "");
            },
            [](const NotExecuted& attempt) {
                return "could not be started: " + attempt.path + ": " +
                       std::generic_category().message(attempt.error_number);
            },
            [](const NotStarted& attempt) { return "could not be started: " + attempt.reason; },
        },
        how_);
}

int WorkerExit::shell_code() const {
    return std::visit(
        Overloaded{
            [](const Exited& exit) { return exit.code; },
            [](const Killed& death) { return exit_codes::killed_by(death.signal); },
            [](const NotExecuted& attempt) {
                return attempt.error_number == ENOENT ? exit_codes::not_found
                                                      : exit_codes::not_executable;
            },
            [](const NotStarted&) { return exit_codes::failed; },
        },
        how_);
}

}  // namespace ddprun::agent
