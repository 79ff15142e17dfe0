// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"

#include <random>

namespace ddprun {

/// The randomness handed to whoever needs it. Tests seed it; programs take `seeded_by_the_system`.
using Random = std::mt19937_64;

Nonce make_nonce(Random& random);

/// From getrandom(2). A shell's business: pure code gets a `Random&`.
Random seeded_by_the_system();

}  // namespace ddprun
