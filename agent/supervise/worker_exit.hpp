// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>

namespace ddprun::agent {

/// How a worker ended, translated once at the edge (process/child.cpp, process/spawn.cpp). Inside
/// the program a wait status does not exist as a number: exit(15) and a death by SIGTERM cannot be
/// mistaken for each other.
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
    /// The system could not start a process just now (no memory, too many processes, ...): the
    /// program may be in order, and the next attempt may succeed.
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
    /// The signal it died of, if it did.
    std::optional<int> signal() const;

    /// "exited with code 1", "killed by SIGSEGV (core dumped)",
    /// "could not be started: /bin/nothing: No such file or directory",
    /// "could not be started: start /bin/train: Resource temporarily unavailable".
    std::string describe() const;

    /// What a shell would say in `$?`: the code, 128 + signal, 127 not found, 126 not executable;
    /// 1 when the system could not start it.
    int shell_code() const;

    bool operator==(const WorkerExit&) const = default;

private:
    How how_;
};

}  // namespace ddprun::agent
