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

/// What kind of file a path is, links followed.
struct PathLook {
    bool exists = false;
    bool is_directory = false;
    bool is_readable = false;
    bool is_executable = false;
    /// It begins as a compiled program does (ELF).
    bool is_machine_code = false;
    /// Device and inode: equal for two paths of one file.
    std::pair<std::uint64_t, std::uint64_t> id{};
};

using LookAt = std::function<PathLook(const std::string& path)>;

/// The command as given on the command line.
struct CommandRequest {
    /// Script, module or program, and its arguments. Requires: not empty.
    std::vector<std::string> words;
    bool is_module = false;
    /// Searched on PATH as well. A script that is a compiled program is run as one in any case.
    bool is_program = false;
    /// --python; empty: find one.
    std::string python;
    /// The path this ddprun was started by, links not followed: an environment's bin folder may
    /// hold a link to one ddprun for the whole machine.
    std::string own_path;
    /// The same path, links followed.
    std::string own_target;
};

/// What each worker is started with.
struct WorkerCommand {
    std::string program;
    std::vector<std::string> arguments;
    /// Why this interpreter: "--python", "PYTHON_EXEC", "beside ddprun", ...; empty for a program.
    std::string python_origin;
    /// Empty, or a line: the environment's variable and PATH mean different interpreters.
    std::string python_warning;

    bool operator==(const WorkerCommand&) const = default;
};

/// The program called `name`, found as a shell finds it. On error the context is two lines and the
/// code as below.
Result<std::string> find_program(
    const std::string& name, const Environment& environment, const LookAt& look_at);

/// Finds the program and looks at the script before anything is started: python itself would
/// report a missing script with exit code 2, once per worker.
/// On error the context is two lines: what is wrong, and what to do. The code is ENOENT when
/// something was not found and EACCES or EISDIR when it cannot be executed (exit_code.hpp).
Result<WorkerCommand> find_worker_command(
    const CommandRequest& request, const Environment& environment, const LookAt& look_at);

}  // namespace ddprun::launcher
