// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/from.hpp"
#include "launcher/grammar/options.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// The values of `--signals-to-handle`, `--signals-to-forward` and `--preempt-signal`.
struct SignalChoice {
    /// These stop the job; what is neither here nor below keeps its default action.
    From<std::vector<int>> stopping;
    /// These are sent on to the workers and have no other effect.
    From<std::vector<int>> forwarded;
    /// All ranks save before the node that gets it stops; 0: none besides SIGTERM.
    From<int> preemption;
    /// One sentence for each unknown name: as with torchrun a warning, not an error.
    std::vector<std::string> warnings;
};

/// A task of a Slurm step sends on what it is warned by, unless it is said otherwise: Slurm may
/// signal the tasks only. On error the context reads "option: 'given': ...".
Result<SignalChoice> signal_choice(const Options& options, bool is_slurm_task);

/// "SIGTERM,SIGINT", "none".
std::string describe_signals(const std::vector<int>& signals);

}  // namespace ddprun::launcher
