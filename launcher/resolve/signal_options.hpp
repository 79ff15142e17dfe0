// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/from.hpp"
#include "launcher/grammar/options.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// The values of `--signals-to-handle`, `--signals-to-forward` and `--preempt-signal`.
struct SignalChoice {
    /// Signals that stop the job; a signal in neither list keeps its default action.
    From<std::vector<int>> stopping;
    /// Signals that are forwarded to the workers and have no other effect.
    From<std::vector<int>> forwarded;
    /// When a node gets this signal, all ranks save before the node stops; 0: only SIGTERM does
    /// that.
    From<int> preemption;
    /// One sentence for each unknown name: a warning instead of an error, as in torchrun.
    std::vector<std::string> warnings;
};

/// Reads the options. In a task of a Slurm step a warning signal is forwarded by default, since
/// Slurm may signal the tasks only. On error the context reads "option: 'given': ...".
Result<SignalChoice> signal_choice(const Options& options, bool is_slurm_task);

/// "SIGTERM,SIGINT", "none".
std::string describe_signals(const std::vector<int>& signals);

}  // namespace ddprun::launcher
