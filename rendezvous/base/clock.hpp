// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

namespace ddprun {

/// The only way to read the time. Shells call it: the driver once per event, the blocking client
/// for its deadlines. Pure code gets the time as an argument.
struct Clock {
    static Instant now();
};

}  // namespace ddprun
