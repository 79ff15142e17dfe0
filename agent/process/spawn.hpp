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

/// One process to start. Text is given as the kernel expects it: nothing is expanded or searched.
struct SpawnSpec {
    static constexpr int inherit = -1;

    /// Path for execve.
    std::string program;
    /// argv, argv[0] included.
    std::vector<std::string> arguments;
    /// "NAME=value", the whole environment.
    std::vector<std::string> environment;
    /// Made before the start, with what is missing above it; that it cannot be is no reason not to
    /// start. Empty: none.
    std::string folder_to_make;
    /// Descriptors that become 0, 1 and 2. They stay the caller's, and open until the outcome is
    /// known.
    int standard_input = inherit;
    int standard_output = inherit;
    int standard_error = inherit;
    /// Signal mask, dispositions and limits to begin with.
    InheritedState start;
    /// A process that waits for a place in a round, and the socket to it, which stays the caller's.
    /// It gets this one; where it cannot, or there is none, a process is started.
    struct Parked {
        int gate;
        pid_t pid;
    };
    std::optional<Parked> parked = std::nullopt;
    /// Where it runs; without CPUs wherever the agent may. Refused by the system, it is logged, and
    /// the process runs unbound.
    CpuBinding binding;
};

/// Starts a process: own session, killed when the *thread* that called this ends, no descriptor
/// but 0, 1, 2.
///
/// Returns when the program has been executed, or why it could not be: code is the system's, the
/// context names path and step. After a failure nothing is left, no zombie either. Takes a fraction
/// of a millisecond however large this process is (vfork), and blocks on a slow disk: call it on
/// the spawner's thread (spawner.hpp).
Result<pid_t> spawn(const SpawnSpec& spec);

/// Whether a failure of `spawn` is about the program, so that another attempt would end the same
/// way; else the system could not start any process at that moment.
bool is_about_program(const Failure& failure);

}  // namespace ddprun::agent
