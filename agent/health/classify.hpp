// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <string>

namespace ddprun::agent::health {

struct Site {
    control::Activity activity = control::Activity::unknown;
    /// The place in words: "read_batch (loader.py:112)", "all_reduce, called at train.py:57",
    /// "clock_nanosleep(2)". Bounded and printable. Ranks in the same place have equal texts.
    std::string site;
    /// The kernel's facts for the screen: "thread 4711: read(2) on /data/shard-17, state D
    /// (nfs_wait_bit_killable)". May be empty.
    std::string detail;
    /// It waits while it uses the processor, as for a GPU. A loop that returns to the same wait in
    /// each step looks the same.
    bool is_spinning = false;

    bool operator==(const Site&) const = default;
};

/// Classifies what a worker was doing between two samples, by the first row that applies. *Fixed*:
/// the main thread was in the same frame at the same instruction both times, and has run hardly at
/// all, or all the time, in between (limits::still_share, spinning_share). *Idle*: the process and
/// those below it used less than 5 % of a core and moved less than 1 MB/s.
///
///   unknown          gone, ended, or another process
///   traced           by a debugger, or the main thread is at the prompt of one
///   stopped          state T both times
///   busy             in fsync(2) or the like both times
///   in_kernel        state D both times, fixed and idle
///   connects         fixed and idle: to the same address both times; or in the code that connects
///                    to the store, with no connection to it established
///   waits_for_store  fixed and idle, in a call on the connection to the store or in a function
///                    that waits for its keys (waiting_functions.hpp)
///   waits_for_peers  it says so (`in_collective`); or fixed in a function that waits for other
///                    ranks, as an idle one does that waits for a collective's `Work`
///   moving           not fixed
///   busy             not idle
///   blocked          the rest
///
/// Without Python frames a process counts as fixed. The main thread represents the process; if it
/// only waits for another thread of the process to end, that thread does.
///
/// `between`: the time between the samples, not negative.
Site classify(const Sample& before, const Sample& after, Duration between);

}  // namespace ddprun::agent::health
