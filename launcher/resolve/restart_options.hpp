// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/from.hpp"
#include "launcher/grammar/options.hpp"
#include "rendezvous/control/message.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct DelayRange {
    Duration shortest{};
    Duration longest{};
};

/// The values of `--restart-delay`, `--restart-refill`, `--no-restart-on` and
/// `--stop-without-progress`.
struct RestartChoice {
    From<DelayRange> delay;
    From<Duration> refill;
    From<std::vector<int>> final_codes;
    From<std::optional<int>> rounds_without_progress;
};

/// On error the context reads "option: 'given': accepted is ...".
Result<RestartChoice> restart_choice(const Options& options);

control::RestartPolicy to_policy(const RestartChoice& choice);

/// "5 s", "5 to 300 s", "none".
std::string describe(const DelayRange& delay);
/// "2,126,127", "none".
std::string describe_codes(const std::vector<int>& codes);

}  // namespace ddprun::launcher
