// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"

#include <chrono>

namespace ddprun::groups {

/// How the ranks of one group exchange bytes: Gloo between processes, memory within one.
///
/// Driven by `Group`: `run` on the group's own thread, one collective at a time, in the order of
/// `Collective::sequence`; `abort` and `is_broken` from any thread. Averages arrive here as sums
/// (`Group` divides).
class Transport {
public:
    virtual ~Transport() = default;

    /// Returns when the buffers are no longer in use. After trouble the transport is dead: the
    /// peers notice, and `run` is not called again.
    virtual Outcome run(const Collective& collective, std::chrono::milliseconds timeout) = 0;

    /// Makes a `run` in progress, and the peers, fail soon. Harmless when there is none.
    virtual void abort() = 0;

    /// True when a connection to some peer has ended. That is no trouble by itself: a peer that was
    /// done with the last collective may have left. Any thread.
    virtual bool is_broken() = 0;
};

}  // namespace ddprun::groups
