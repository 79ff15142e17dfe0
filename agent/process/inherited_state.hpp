// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <optional>
#include <span>

namespace ddprun::agent {

/// The state with which `ddprun` was started and which it changes for its own use. It is captured
/// first in main, passed to the agent and restored in every worker, so that a worker starts with
/// the same state as without ddprun.
struct InheritedState {
    sigset_t mask{};
    sigset_t ignored{};
    /// The limit of open descriptors may be raised for ddprun, but not for the workers.
    std::optional<rlimit> descriptor_limit;

    static InheritedState capture();

    bool ignores(int signal) const { return sigismember(&ignored, signal) == 1; }

    /// Whether ddprun must keep ignoring a signal that it would otherwise handle: a hang-up under
    /// nohup.
    bool keeps_ignoring(int signal) const { return signal == SIGHUP && ignores(signal); }

    /// The state for the workers of a ddprun that handles these signals: they ignore none of them
    /// unless ddprun ignores it too. A script's background job starts with SIGINT and SIGQUIT
    /// ignored; workers that kept that would run until the end of the grace at every such stop.
    /// torchrun's workers start the same way. `notice` is ignored, since a scheduler may send it to
    /// every process; 0: none.
    InheritedState for_workers(std::span<const int> handled, int notice = 0) const;
};

}  // namespace ddprun::agent
