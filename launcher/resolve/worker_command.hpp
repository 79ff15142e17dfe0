// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/env_defaults.hpp"
#include "rendezvous/base/result.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {

/// The type of the file at a path, links followed.
struct PathLook {
    bool exists = false;
    bool is_directory = false;
    bool is_readable = false;
    bool is_executable = false;
    /// The file begins like a compiled program (ELF).
    bool is_machine_code = false;
    /// Device and inode: equal for two paths of the same file.
    std::pair<std::uint64_t, std::uint64_t> id{};
};

using LookAt = std::function<PathLook(const std::string& path)>;

/// The command as given on the command line.
struct CommandRequest {
    /// Script, module or program, and its arguments. Requires: not empty.
    std::vector<std::string> words;
    bool is_module = false;
    /// The command is a program, which is also searched on PATH. A script that turns out to be a
    /// compiled program is always run as one.
    bool is_program = false;
    /// --python; empty: find one.
    std::string python;
    /// The path by which this ddprun was started, links not followed: an environment's bin folder
    /// may hold a link to one ddprun for the whole machine.
    std::string own_path;
    /// The same path, links followed.
    std::string own_target;
};

/// The command that starts each worker.
struct WorkerCommand {
    std::string program;
    std::vector<std::string> arguments;
    /// Why this interpreter was chosen: "--python", "PYTHON_EXEC", "beside ddprun", ...; empty for
    /// a program.
    std::string python_origin;
    /// Empty, or a warning: the environment's variable and PATH name different interpreters.
    std::string python_warning;

    bool operator==(const WorkerCommand&) const = default;
};

/// Finds the program called `name` as a shell does. On error the context is two lines and the code
/// as below.
Result<std::string> find_program(
    const std::string& name, const Environment& environment, const LookAt& look_at);

/// Finds the program and checks the script before anything is started: python itself would report a
/// missing script with exit code 2, once per worker. On error the context is two lines: what is
/// wrong, and what to do. The code is ENOENT when something was not found and EACCES or EISDIR when
/// it cannot be executed (exit_code.hpp).
Result<WorkerCommand> find_worker_command(
    const CommandRequest& request, const Environment& environment, const LookAt& look_at);

}  // namespace ddprun::launcher
