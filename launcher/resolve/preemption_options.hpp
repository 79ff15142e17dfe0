// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/from.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::launcher {

/// The value of `--deadline`.
struct DeadlineChoice {
    /// From the notice until this node is killed.
    From<std::optional<Duration>> length;
    /// With `slurm`: the end of the allocation, in seconds of the Unix epoch.
    std::optional<std::int64_t> allocation_end;
};

}  // namespace ddprun::launcher
