// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/element_type.hpp"
#include "ddprun/error.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ddprun {

namespace groups {
class Arena;
class Group;
struct Ticket;
}  // namespace groups

/// How bytes travel between the ranks of a group.
enum class Backend : int {
    automatic =
        0,    ///< the fastest that this machine and this build have: today cpu, or loopback alone
    cpu = 1,  ///< between processes, buffers in the memory of the machine
    loopback = 2,  ///< inside this process; a world of one
    gloo = 3,      ///< what cpu uses between hosts (TCP), for everything; to compare with
};

/// A collective that was launched. Its buffers belong to the group until `wait` has returned or
/// thrown. A Work that is dropped waits in its destructor (and keeps quiet about errors: the next
/// call on the group repeats them).
class [[nodiscard]] Work {
public:
    using Clock = std::chrono::steady_clock;

    Work(Work&&) noexcept;
    Work& operator=(Work&&) noexcept;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work();

    bool is_done() const;

    /// Waits for the end, at most as long as the group's timeout allows each collective. Throws
    /// what went wrong: PeerLost, Timeout or Mismatch.
    void wait();

    /// The same with a deadline of its own. When it passes, the group is aborted (on this rank; the
    /// peers see PeerLost) and Timeout is thrown: a collective cannot be called back alone.
    void wait(Clock::time_point deadline);

private:
    friend class ProcessGroup;
    Work(std::shared_ptr<groups::Group> group, std::shared_ptr<groups::Ticket> ticket);

    std::shared_ptr<groups::Group> group_;
    std::shared_ptr<groups::Ticket> ticket_;
};

/// Memory for collectives, from `ProcessGroup::allocate`: zeroed, aligned to a page, and where the
/// backend can do better with memory of its own, of that kind (on cpu: shared with the ranks of
/// this host, which saves two copies). Free to outlive its group.
class Memory {
public:
    Memory() = default;
    Memory(Memory&&) noexcept;
    Memory& operator=(Memory&&) noexcept;
    ~Memory();

    void* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    friend class ProcessGroup;

    void* data_ = nullptr;
    std::size_t size_ = 0;
    std::shared_ptr<groups::Arena> arena_;  // null: pages of its own
};

/// All ranks of a world, or some of them, for collectives and messages.
///
/// A handle: copies are the same group. Every rank makes the same collective calls in the same
/// order; they are performed in that order, beside the caller. Ranks that disagree about size,
/// type, operation or order get Mismatch, never wrong numbers.
///
/// `count` is always what one rank gives to one other. Buffers of one call do not overlap, except
/// that a rank's own part may already be where it belongs: the input of all_gather and gather at
/// its place in the output, the output of reduce_scatter and scatter at its place in the input.
///
/// After an error the group is dead on this rank, and each further call throws that error again.
/// For a fixed world size results are the same bits on all ranks and in every run.
class ProcessGroup {
public:
    struct Options {
        Backend backend = Backend::automatic;
        /// For finding the peers, and for each collective.
        std::chrono::milliseconds timeout = std::chrono::minutes(10);
    };

    /// Every rank of `world` calls it, with the store of the same round.
    static ProcessGroup create(const World& world, const Store& store, const Options& options);
    static ProcessGroup create(const World& world, const Store& store);
    /// With a store connection of its own.
    static ProcessGroup create(const World& world);

    ProcessGroup(const ProcessGroup&);
    ProcessGroup(ProcessGroup&&) noexcept;
    ProcessGroup& operator=(const ProcessGroup&);
    ProcessGroup& operator=(ProcessGroup&&) noexcept;
    ~ProcessGroup();

    int rank() const;
    int size() const;
    /// The backend in use; never `automatic`.
    Backend backend() const;

    Memory allocate(std::size_t bytes) const;

    /// In place: everybody gets all ranks' elements combined.
    template <class T>
    Work all_reduce(T* data, std::size_t count, Op op = Op::sum) const {
        return all_reduce_raw(data, count, ElementTypeOf<T>::value, op);
    }

    /// The same in place on `root` alone; elsewhere `data` stays what it is.
    template <class T>
    Work reduce(T* data, std::size_t count, int root = 0, Op op = Op::sum) const {
        return reduce_raw(data, count, ElementTypeOf<T>::value, root, op);
    }

    /// In place: everybody gets what `root` has.
    template <class T>
    Work broadcast(T* data, std::size_t count, int root = 0) const {
        return broadcast_raw(data, count, ElementTypeOf<T>::value, root);
    }

    /// `output` holds size() * `count` elements, in the order of ranks.
    template <class T>
    Work all_gather(const T* input, T* output, std::size_t count) const {
        return all_gather_raw(input, output, count, ElementTypeOf<T>::value);
    }

    /// `input` holds size() * `count` elements; rank r gets the r-th part of all, combined.
    template <class T>
    Work reduce_scatter(const T* input, T* output, std::size_t count, Op op = Op::sum) const {
        return reduce_scatter_raw(input, output, count, ElementTypeOf<T>::value, op);
    }

    /// `output` holds size() * `count` elements on `root`; elsewhere it may be null.
    template <class T>
    Work gather(const T* input, T* output, std::size_t count, int root = 0) const {
        return gather_raw(input, output, count, ElementTypeOf<T>::value, root);
    }

    /// `input` holds size() * `count` elements on `root`; elsewhere it may be null.
    template <class T>
    Work scatter(const T* input, T* output, std::size_t count, int root = 0) const {
        return scatter_raw(input, output, count, ElementTypeOf<T>::value, root);
    }

    /// Both hold size() * `count` elements; rank r's s-th part becomes rank s's r-th.
    template <class T>
    Work all_to_all(const T* input, T* output, std::size_t count) const {
        return all_to_all_raw(input, output, count, ElementTypeOf<T>::value);
    }

    /// One message to `peer`, which calls `recv` with the same count and type. Sends are performed
    /// in the order in which they were launched, receives likewise, collectives beside both; so all
    /// ranks may send and then receive.
    template <class T>
    Work send(const T* data, std::size_t count, int peer) const {
        return send_raw(data, count, ElementTypeOf<T>::value, peer);
    }
    template <class T>
    Work recv(T* data, std::size_t count, int peer) const {
        return recv_raw(data, count, ElementTypeOf<T>::value, peer);
    }

    /// Done when every rank has launched it.
    Work barrier() const;

    /// A group of some of this one's ranks, in the order of the list. Called by these ranks and by
    /// no other, with the same list; waits for them. Its own ranks are counted from 0. Where the
    /// same ranks make several such groups, they make them in the same order.
    ProcessGroup sub_group(const std::vector<int>& ranks) const;

    /// For callers that know the type only at run time.
    Work all_reduce_raw(void* data, std::size_t count, ElementType type, Op op) const;
    Work reduce_raw(void* data, std::size_t count, ElementType type, int root, Op op) const;
    Work broadcast_raw(void* data, std::size_t count, ElementType type, int root) const;
    Work all_gather_raw(const void* input, void* output, std::size_t count, ElementType type) const;
    Work reduce_scatter_raw(
        const void* input, void* output, std::size_t count, ElementType type, Op op) const;
    Work gather_raw(
        const void* input, void* output, std::size_t count, ElementType type, int root) const;
    Work scatter_raw(
        const void* input, void* output, std::size_t count, ElementType type, int root) const;
    Work all_to_all_raw(const void* input, void* output, std::size_t count, ElementType type) const;
    Work send_raw(const void* data, std::size_t count, ElementType type, int peer) const;
    Work recv_raw(void* data, std::size_t count, ElementType type, int peer) const;

    /// Ends the group at once on this rank; what is in flight fails here and on the peers.
    void abort() const;

private:
    friend class groups::Group;
    explicit ProcessGroup(std::shared_ptr<groups::Group> group);

    std::shared_ptr<groups::Group> group_;
};

}  // namespace ddprun
