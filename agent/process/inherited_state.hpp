// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <optional>
#include <span>

namespace ddprun::agent {

/// What `ddprun` itself was started with and changes for its own use. Captured as the first thing
/// in main, it travels to the agent and is given back to every worker, so that a worker sees what
/// it would see if it had been started without us.
struct InheritedState {
    sigset_t mask{};
    sigset_t ignored{};
    /// The limit of open descriptors may be raised for ddprun, but not for the workers.
    std::optional<rlimit> descriptor_limit;

    static InheritedState capture();

    bool ignores(int signal) const { return sigismember(&ignored, signal) == 1; }

    /// Whether ddprun leaves it ignored even if it should handle it: a hang-up under nohup.
    bool keeps_ignoring(int signal) const { return signal == SIGHUP && ignores(signal); }

    /// For the workers of a ddprun that handles these: none of them is ignored that is not ignored
    /// here too. A script's background job is started with SIGINT and SIGQUIT ignored; workers that
    /// kept that would sit out the grace of every such stop. torchrun's begin the same way.
    /// `notice`: ignored, since a scheduler may send it to every process; 0: none.
    InheritedState for_workers(std::span<const int> handled, int notice = 0) const;
};

}  // namespace ddprun::agent
