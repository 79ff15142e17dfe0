// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cifar {

/// One cycle: the learning rate rises linearly from zero to `peak` during the first fifth of the
/// run, and then falls linearly to zero at its end. `progress` is the share of all samples that has
/// been used, so that a run can resume with another number of ranks.
constexpr float one_cycle(double progress, float peak) {
    constexpr double rising = 0.2;
    if (progress <= 0 || progress >= 1) return 0;
    const double share = progress < rising ? progress / rising : (1 - progress) / (1 - rising);
    return static_cast<float>(peak * share);
}

}  // namespace cifar
