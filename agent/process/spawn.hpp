// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/cpu_binding.hpp"
#include "agent/process/inherited_state.hpp"
#include "rendezvous/base/result.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// One process to start. Texts are passed to the kernel as they are: nothing is expanded or
/// searched.
struct SpawnSpec {
    static constexpr int inherit = -1;

    /// The path for execve.
    std::string program;
    /// argv, argv[0] included.
    std::vector<std::string> arguments;
    /// "NAME=value", the whole environment.
    std::vector<std::string> environment;
    /// A folder to make before the start, including missing parents; failing to make it does not
    /// prevent the start. Empty: none.
    std::string folder_to_make;
    /// Descriptors that become 0, 1 and 2. The caller owns them and keeps them open until the
    /// outcome is known.
    int standard_input = inherit;
    int standard_output = inherit;
    int standard_error = inherit;
    /// The initial signal mask, dispositions and limits.
    InheritedState start;
    /// A parked process, and the socket to it, which the caller owns. The parked process becomes
    /// this worker; if it cannot, or if there is none, a process is started.
    struct Parked {
        int gate;
        pid_t pid;
    };
    std::optional<Parked> parked = std::nullopt;
    /// The worker's CPUs; if there are none, it may run wherever the agent may. If the system
    /// refuses the binding, that is logged, and the process runs unbound.
    CpuBinding binding;
};

/// Starts a process in its own session, with no descriptor but 0, 1, 2. It is killed when the
/// *thread* that called this function ends.
///
/// Returns when the program has been executed, or an error with the system's code and a context
/// that names path and step. After a failure nothing is left, not even a zombie. Takes a fraction
/// of a millisecond however large this process is (vfork), and blocks on a slow disk: call it on
/// the spawner's thread (spawner.hpp).
Result<pid_t> spawn(const SpawnSpec& spec);

/// Whether a failure of `spawn` is caused by the program, so that another attempt would fail in the
/// same way; otherwise the system could not start any process at that moment.
bool is_about_program(const Failure& failure);

}  // namespace ddprun::agent
