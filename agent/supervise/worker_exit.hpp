// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>

namespace ddprun::agent {

/// How a worker ended, translated once at the edge (process/child.cpp, process/spawn.cpp).
/// Elsewhere no wait status is used as a number, so exit(15) and a death by SIGTERM cannot be
/// confused.
class WorkerExit {
public:
    struct Exited {
        int code = 0;
        bool operator==(const Exited&) const = default;
    };
    struct Killed {
        int signal = 0;
        bool core_dumped = false;
        bool operator==(const Killed&) const = default;
    };
    /// The program never ran.
    struct NotExecuted {
        int error_number = 0;
        std::string path;
        bool operator==(const NotExecuted&) const = default;
    };
    /// The system could not start a process at that time (no memory, too many processes, ...): the
    /// program may be valid, and the next attempt may succeed.
    struct NotStarted {
        std::string reason;
        bool operator==(const NotStarted&) const = default;
    };
    using How = std::variant<Exited, Killed, NotExecuted, NotStarted>;

    explicit(false) WorkerExit(How how) : how_(std::move(how)) {}

    /// Requires: a status of waitpid for a process that ended (not one that stopped).
    static WorkerExit from_wait_status(int status);

    const How& how() const { return how_; }
    bool is_success() const;
    /// The signal that the worker died of; none: it did not die of a signal.
    std::optional<int> signal() const;

    /// "exited with code 1", "killed by SIGSEGV (core dumped)",
    /// "could not be started: /bin/nothing: No such file or directory",
    /// "could not be started: start /bin/train: Resource temporarily unavailable".
    std::string describe() const;

    /// The value that a shell has in `$?`: the code, 128 + signal, 127 not found, 126 not
    /// executable; 1 when the system could not start it.
    int shell_code() const;

    bool operator==(const WorkerExit&) const = default;

private:
    How how_;
};

}  // namespace ddprun::agent
