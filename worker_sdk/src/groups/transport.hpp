// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/arena.hpp"
#include "worker_sdk/src/groups/collective.hpp"

#include <chrono>
#include <memory>
#include <variant>
#include <vector>

namespace ddprun::groups {

/// How the ranks of one group exchange data: shared memory on one host, TCP between hosts, plain
/// memory between threads.
///
/// Driven by `Group`. At any time there is at most one collective in `run` and one in `begin`, each
/// in the order of `Collective::sequence`; one call of any kind in `follow`; and besides them one
/// send and one recv, each in their order. `begin` and `precede` are not called at the same time.
/// All other members: any thread.
class Transport {
public:
    virtual ~Transport() = default;

    /// Connects to the peers. Called once, before everything but `abort`. After an error the
    /// existing connections stay until `abort`, so that the error can be explained to the peers
    /// first.
    virtual Outcome connect() { return {}; }

    /// Why this transport cannot perform a collective that `check` accepts, if that is known before
    /// it begins.
    virtual Outcome refusal(const Collective&) const { return {}; }

    /// Called when a collective with a stream is launched: orders it after the work that is in the
    /// stream at that time, whenever it begins. An error has the effect of an error in `run`,
    /// except a usage error, which changes nothing.
    virtual Outcome follow(const Collective&) { return {}; }

    /// Begins a collective if that takes a few milliseconds at most; `run` then ends it. In
    /// between, others may begin and earlier ones may end. Returns false when it has not begun and
    /// `run` must do all of it. Any thread. Requires: all before it in its queue have begun, or are
    /// done. An error has the effect of an error in `run`.
    virtual std::variant<bool, GroupError> begin(const Collective&) { return false; }

    /// Orders the work that will be put into the stream after this collective, which has begun. An
    /// error has the effect of an error in `run`, except a usage error, which changes nothing.
    virtual Outcome precede(const Collective&, void* /*stream*/) { return {}; }

    /// Returns when the buffers are no longer in use. After an error the transport is dead: the
    /// peers notice, and `run` is called again only for collectives that have begun.
    /// On the cpu an all_reduce is in place, and an all_gather_v or all_to_all_v comes in two steps
    /// (Collective::counts).
    virtual Outcome run(const Collective& collective, std::chrono::milliseconds timeout) = 0;

    /// Makes a `connect` or `run` in progress fail soon, here and on the peers. Harmless when none
    /// is in progress.
    virtual void abort() = 0;

    /// True when a connection to some peer has ended. That is no error by itself: a peer that has
    /// completed the last collective may have left.
    virtual bool is_broken() = 0;

    /// Whether `run` may be called on the program's own threads, where signals arrive; otherwise
    /// only on the group's.
    virtual bool is_for_any_thread() const { return false; }

    /// Whether `run` ends at its timeout, and not a grace period later.
    virtual bool keeps_timeout() const { return true; }

    /// Whether the collective takes less time than waking a thread for it.
    virtual bool is_quick(const Collective&) const { return false; }

    /// The ranks that delay the collective in progress, as far as they are known.
    virtual std::vector<int> missing() { return {}; }

    /// The GPU that holds the buffers; -1 for host memory.
    virtual int device() const { return -1; }

    /// Where memory for collectives comes from; null when ordinary memory is as good.
    virtual std::shared_ptr<Arena> arena() { return {}; }
};

}  // namespace ddprun::groups
