// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/backoff.hpp"

#include <algorithm>

namespace ddprun {

Duration Backoff::next(Random& random) {
    const auto pause = next_;
    next_ = std::min(longest_, next_ * 2);
    std::uniform_real_distribution<double> share(0.5, 1.0);
    return from_seconds(in_seconds(pause) * share(random));
}

}  // namespace ddprun
