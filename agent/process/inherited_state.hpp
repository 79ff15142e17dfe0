// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <optional>

namespace ddprun::agent {

/// What `ddprun` itself was started with and changes for its own use. Captured as the first thing
/// in main, it travels to the agent and is given back to every worker, so that a worker sees what
/// it would see if it had been started without us.
struct InheritedState {
    sigset_t mask{};
    sigset_t ignored{};
    /// Our limit of open descriptors may be raised; theirs is not.
    std::optional<rlimit> descriptor_limit;

    static InheritedState capture();

    bool ignores(int signal) const { return sigismember(&ignored, signal) == 1; }
};

}  // namespace ddprun::agent
