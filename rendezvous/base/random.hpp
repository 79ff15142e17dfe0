// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"

#include <random>

namespace ddprun {

/// The source of randomness, passed as an argument. Tests seed it; programs use
/// `seeded_by_the_system`.
using Random = std::mt19937_64;

Nonce make_nonce(Random& random);

/// A nonce whose bits all come from the system (getentropy(3)). For values that must not be
/// guessable, even from any number of earlier values. For shells only.
Nonce unguessable_nonce();

/// A generator seeded by getentropy(3). For shells only: pure code gets a `Random&`.
Random seeded_by_the_system();

}  // namespace ddprun
