// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/arena.hpp"
#include "worker_sdk/src/groups/collective.hpp"

#include <chrono>
#include <memory>
#include <variant>
#include <vector>

namespace ddprun::groups {

struct DeviceAccess;

/// How the ranks of one group exchange bytes: shared memory on one host, Gloo between hosts, plain
/// memory between threads.
///
/// Driven by `Group`: one collective at a time is in `run` and one in `begin`, each in the order of
/// `Collective::sequence`, at most one of any kind in `follow`, and beside them one send and one
/// recv, each in their order. All other members: any thread.
class Transport {
public:
    virtual ~Transport() = default;

    /// Called when a collective that has a stream is launched: it comes after what is in there by
    /// then, whenever it begins. After trouble as after trouble in `run`, but usage: nothing has
    /// happened.
    virtual Outcome follow(const Collective&) { return {}; }

    /// Begins a collective, if that takes a few milliseconds at most; `run` then ends it. Between
    /// the two others may begin, and those begun before end. False: it has not begun, and `run`
    /// does all of it. Any thread. Requires: all before it in its queue have begun, or are done.
    /// After trouble as after trouble in `run`.
    virtual std::variant<bool, Trouble> begin(const Collective&) { return false; }

    /// Returns when the buffers are no longer in use. After trouble the transport is dead: the
    /// peers notice, and `run` is called again only for what has begun.
    virtual Outcome run(const Collective& collective, std::chrono::milliseconds timeout) = 0;

    /// Makes a `run` in progress, and the peers, fail soon. Harmless when there is none.
    virtual void abort() = 0;

    /// True when a connection to some peer has ended. That is no trouble by itself: a peer that was
    /// done with the last collective may have left.
    virtual bool is_broken() = 0;

    /// Whether `run` may be called on the program's own threads, where signals arrive; otherwise
    /// only on the group's.
    virtual bool is_for_any_thread() const { return false; }

    /// Over so quickly that waking a thread for it would take longer.
    virtual bool is_quick(const Collective&) const { return false; }

    /// The ranks that keep the collective in progress from ending, as far as that can be told.
    virtual std::vector<int> missing() { return {}; }

    /// The GPU whose memory buffers are in; -1 for the machine's.
    virtual int device() const { return -1; }

    /// Null where there is no GPU.
    virtual const DeviceAccess* device_access() const { return nullptr; }

    /// Where memory for collectives comes from; null when any will do.
    virtual std::shared_ptr<Arena> arena() { return {}; }
};

}  // namespace ddprun::groups
