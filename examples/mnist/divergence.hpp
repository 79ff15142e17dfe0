// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/error.hpp"

#include <cmath>
#include <cstdint>
#include <string>

namespace mnist {

/// Before a checkpoint is saved: `loss` is the sum over all ranks of what the epoch had until now.
/// Throws ddprun::UsageError when that is no number, on every rank.
inline void refuse_diverged(double loss, std::int64_t step) {
    if (std::isfinite(loss)) return;
    throw ddprun::UsageError(
        "training has diverged: at step " + std::to_string(step) +
        " the loss is no finite number any more, and this is not saved\n"
        "give a lower --lr; what was saved before can be resumed");
}

}  // namespace mnist
