// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/error.hpp"
#include "ddprun/store.hpp"
#include "ddprun/world.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace ddprun {

namespace groups {
class Group;
struct Ticket;
}  // namespace groups

/// How bytes travel between the ranks of a group.
enum class Backend {
    automatic,  ///< the fastest that this machine and this build have: today cpu, or loopback alone
    cpu,        ///< TCP between processes (Gloo)
    loopback,   ///< inside this process; a world of one
};

enum class Op { sum, average };

enum class ElementType { float32, float64, int64, byte };

/// The element type of a C++ type; of no other type can collectives be made.
template <class T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<float> {
    static constexpr ElementType value = ElementType::float32;
};
template <>
struct ElementTypeOf<double> {
    static constexpr ElementType value = ElementType::float64;
};
template <>
struct ElementTypeOf<std::int64_t> {
    static constexpr ElementType value = ElementType::int64;
};
template <>
struct ElementTypeOf<std::byte> {
    static constexpr ElementType value = ElementType::byte;
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
/// backend can do better with memory of its own, of that kind. Free to outlive its group.
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
    Memory(void* data, std::size_t size) : data_(data), size_(size) {}

    void* data_ = nullptr;
    std::size_t size_ = 0;
};

/// All ranks of a world, for collectives.
///
/// A handle: copies are the same group. Every rank makes the same calls in the same order; one
/// thread of the group performs them in that order, beside the caller. Ranks that disagree about
/// size, type, operation or order get Mismatch, never wrong numbers.
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

    /// In place. float, double, std::int64_t; the average of integers is rounded towards zero.
    template <class T>
    Work all_reduce(T* data, std::size_t count, Op op = Op::sum) const {
        return all_reduce_raw(data, count, ElementTypeOf<T>::value, op);
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

    /// Done when every rank has launched it.
    Work barrier() const;

    /// For callers that know the type only at run time.
    Work all_reduce_raw(void* data, std::size_t count, ElementType type, Op op) const;
    Work broadcast_raw(void* data, std::size_t count, ElementType type, int root) const;
    Work all_gather_raw(const void* input, void* output, std::size_t count, ElementType type) const;

    /// Ends the group at once on this rank; what is in flight fails here and on the peers.
    void abort() const;

private:
    friend class groups::Group;
    explicit ProcessGroup(std::shared_ptr<groups::Group> group);

    std::shared_ptr<groups::Group> group_;
};

}  // namespace ddprun
