// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/scratch.hpp"
#include "worker_sdk/src/transports/wire/exchange.hpp"

#include <cstddef>

namespace ddprun::groups {

/// Plans a collective between ranks that are all connected with each other. Each rank sends and
/// receives the fewest bytes possible, in at most two steps:
///
///   all_reduce      each rank combines a part, and sends it to all as it is combined
///   reduce          each rank but the root combines a part, and sends it to the root
///   broadcast       the root sends a part to each, which passes it on as it arrives
///   reduce_scatter  each rank's part is sent to it, and combined there
///   barrier         each rank waits for a word of all others
///   the others      directly
///
/// With few bytes, the first three also take one step: each rank sends everything to all, or to and
/// from the root. Elements are always combined in the order of ranks, so the bits of a result
/// depend neither on its length nor on what arrived first.
///
/// `scratch` is used until the exchange is over. On the cpu an all_reduce is in place.
void plan(
    const Collective& collective,
    int rank,
    int ranks,
    Scratch<std::byte>& scratch,
    Exchange& exchange);

}  // namespace ddprun::groups
