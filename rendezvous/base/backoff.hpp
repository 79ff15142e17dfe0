// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/random.hpp"
#include "rendezvous/base/time.hpp"

namespace ddprun {

/// The pauses between attempts. They double from `first` to `longest`, and each is shortened at
/// random by up to a half, so that a thousand clients do not reconnect at the same moment.
class Backoff {
public:
    Backoff(Duration first, Duration longest) : first_(first), longest_(longest), next_(first) {}

    Duration next(Random& random);
    void reset() { next_ = first_; }

private:
    Duration first_;
    Duration longest_;
    Duration next_;
};

}  // namespace ddprun
