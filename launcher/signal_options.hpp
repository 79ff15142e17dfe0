// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/from.hpp"
#include "launcher/options.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// What `--signals-to-handle` and `--signals-to-forward` say.
struct SignalChoice {
    /// These stop the job; what is neither here nor below keeps its default action.
    From<std::vector<int>> stopping;
    /// These are handed to the workers, and nothing else comes of them.
    From<std::vector<int>> forwarded;
    /// Sentences about names that nobody knows: as with torchrun they only warn.
    std::vector<std::string> warnings;
};

/// On error the context reads "option: 'given': ...".
Result<SignalChoice> signal_choice(const Options& options);

/// "SIGTERM,SIGINT", "none".
std::string describe_signals(const std::vector<int>& signals);

}  // namespace ddprun::launcher
