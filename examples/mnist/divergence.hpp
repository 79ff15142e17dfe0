// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/error.hpp"

#include <cmath>
#include <cstdint>
#include <string>

namespace mnist {

/// Called before a checkpoint is saved. `loss` is the sum over all ranks in this epoch so far.
/// Throws ddprun::UsageError on every rank when that is not finite.
inline void refuse_diverged(double loss, std::int64_t step) {
    if (std::isfinite(loss)) return;
    throw ddprun::UsageError(
        "training has diverged: at step " + std::to_string(step) +
        " the loss is no finite number any more, and this is not saved\n"
        "give a lower --lr; what was saved before can be resumed");
}

}  // namespace mnist
