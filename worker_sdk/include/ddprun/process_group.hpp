// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/backend.hpp"
#include "ddprun/ddprun.h"
#include "ddprun/element_type.hpp"
#include "ddprun/memory.hpp"
#include "ddprun/store.hpp"
#include "ddprun/throw_error.hpp"
#include "ddprun/work.hpp"
#include "ddprun/world.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A group of all ranks of a world, or of some of them, for collectives and messages.
///
/// A ProcessGroup is a handle: copies refer to the same group. Every rank makes the same collective
/// calls in the same order; they are performed in that order, asynchronously to the caller. Ranks
/// that disagree about size, type, operation or order get Mismatch, never wrong numbers.
///
/// `count` is the number of elements that one rank sends to one other rank; it may be 0. A buffer
/// belongs to the group from the call until its Work has been waited for, by the host or, on nccl,
/// in a stream (`Work::wait_in`). Buffers of one call do not overlap, except that a rank's own part
/// may be in place, that is: the input of all_gather and gather at its position in the output, the
/// output of reduce_scatter and scatter at its position in the input.
///
/// An invalid call (a root that does not exist, a null buffer, an overlap) throws UsageError and
/// launches nothing. All other errors are thrown by `Work::wait`: after one of them the group is
/// dead on this rank, and each further call throws it again.
///
/// Any thread may call, as long as the order is the same on all ranks: in practice one thread.
/// For a fixed world size results are the same bits on all ranks and in every run.
class ProcessGroup {
public:
    struct Options {
        Backend backend = Backend::automatic;
        /// Limits the connection set-up to the peers, and each collective. Must be above 0.
        std::chrono::milliseconds timeout = std::chrono::minutes(10);
    };

    /// A collective: every rank of `world` calls it with the store of the same round, and waits for
    /// the others. Throws UsageError, or Timeout or PeerLost when not all ranks can be reached.
    static ProcessGroup create(const World& world, const Store& store, const Options& options) {
        return create(world, store.handle(), options);
    }
    static ProcessGroup create(const World& world, const Store& store) {
        return create(world, store, Options{});
    }
    /// The group opens its own store connection.
    static ProcessGroup create(const World& world) { return create(world, nullptr, Options{}); }

    /// Takes ownership of a group that a C function returned.
    explicit ProcessGroup(ddprun_group* handle) : handle_(handle, ddprun_group_free) {}
    /// For C functions; belongs to this ProcessGroup and its copies.
    ddprun_group* handle() const { return handle_.get(); }

    int rank() const { return ddprun_group_rank(handle()); }
    int size() const { return ddprun_group_size(handle()); }
    /// The backend in use; never `automatic`.
    Backend backend() const { return static_cast<Backend>(ddprun_group_backend(handle())); }

    /// Throws std::bad_alloc when memory is exhausted.
    Memory allocate(std::size_t bytes) const {
        if (bytes == 0) return {};
        void* const data = ddprun_allocate(handle(), bytes);
        if (!data) throw std::bad_alloc();
        return {data, bytes};
    }

    /// In place: every rank gets the combined elements of all ranks.
    template <class T>
    Work all_reduce(T* data, std::size_t count, Op op = Op::sum) const {
        return all_reduce_raw(data, count, ElementTypeOf<T>::value, op);
    }

    /// Not in place: `input` is not changed. `output` may be equal to `input`, but must not overlap
    /// it in part. On the cpu the input is copied first; on nccl it is not.
    template <class T>
    Work all_reduce(const T* input, T* output, std::size_t count, Op op = Op::sum) const {
        return all_reduce_to_raw(input, output, count, ElementTypeOf<T>::value, op);
    }

    /// The result is on `root` only; on other ranks `data` is unchanged.
    template <class T>
    Work reduce(T* data, std::size_t count, int root = 0, Op op = Op::sum) const {
        return reduce_raw(data, count, ElementTypeOf<T>::value, root, op);
    }

    /// In place: every rank gets the elements of `root`.
    template <class T>
    Work broadcast(T* data, std::size_t count, int root = 0) const {
        return broadcast_raw(data, count, ElementTypeOf<T>::value, root);
    }

    /// `output` has room for size() * `count` elements and gets them in the order of ranks.
    template <class T>
    Work all_gather(const T* input, T* output, std::size_t count) const {
        return all_gather_raw(input, output, count, ElementTypeOf<T>::value);
    }

    /// `input` holds size() * `count` elements. Rank r gets the r-th part of all inputs, combined.
    template <class T>
    Work reduce_scatter(const T* input, T* output, std::size_t count, Op op = Op::sum) const {
        return reduce_scatter_raw(input, output, count, ElementTypeOf<T>::value, op);
    }

    /// `output` holds size() * `count` elements on `root`; on other ranks it may be null.
    template <class T>
    Work gather(const T* input, T* output, std::size_t count, int root = 0) const {
        return gather_raw(input, output, count, ElementTypeOf<T>::value, root);
    }

    /// `input` holds size() * `count` elements on `root`; on other ranks it may be null.
    template <class T>
    Work scatter(const T* input, T* output, std::size_t count, int root = 0) const {
        return scatter_raw(input, output, count, ElementTypeOf<T>::value, root);
    }

    /// `input` and `output` hold size() * `count` elements each. The s-th part of rank r's input
    /// becomes the r-th part of rank s's output.
    template <class T>
    Work all_to_all(const T* input, T* output, std::size_t count) const {
        return all_to_all_raw(input, output, count, ElementTypeOf<T>::value);
    }

    /// all_gather of parts of different sizes. `counts` lists the elements of each rank's part:
    /// size() numbers, the same list on every rank. `output` holds all parts contiguously, in the
    /// order of ranks. A rank's own part may be in place.
    template <class T>
    Work all_gather_v(const T* input, T* output, const std::vector<std::size_t>& counts) const {
        return all_gather_v_raw(input, output, counts, ElementTypeOf<T>::value);
    }

    /// all_to_all of parts of different sizes: `input_counts[r]` elements go to rank r, and
    /// `output_counts[r]` come from it. Parts are contiguous, in the order of ranks. When a rank
    /// expects another count than its peer sends, all ranks get Mismatch; on nccl the counts are
    /// not compared.
    template <class T>
    Work all_to_all_v(
        const T* input,
        const std::vector<std::size_t>& input_counts,
        T* output,
        const std::vector<std::size_t>& output_counts) const {
        return all_to_all_v_raw(
            input, input_counts, output, output_counts, ElementTypeOf<T>::value);
    }

    /// Sends one message to `peer`, which calls `recv` with the same count and type. Sends are
    /// performed in the order of their launch, and so are receives; sends, receives and collectives
    /// do not wait for each other, so all ranks may send and then receive.
    template <class T>
    Work send(const T* data, std::size_t count, int peer) const {
        return send_raw(data, count, ElementTypeOf<T>::value, peer);
    }
    template <class T>
    Work recv(T* data, std::size_t count, int peer) const {
        return recv_raw(data, count, ElementTypeOf<T>::value, peer);
    }

    /// Done when every rank has launched its barrier.
    Work barrier() const {
        return launched([&](auto work) { return ddprun_barrier(handle(), work); });
    }

    /// Creates a group of some of this group's ranks, numbered from 0 in the order of the list.
    /// Exactly these ranks call it, with the same list, and wait for each other. When the same
    /// ranks create several such groups, they create them in the same order.
    ProcessGroup sub_group(const std::vector<int>& ranks) const {
        ddprun_group* sub_group = nullptr;
        throw_if(ddprun_group_create_sub(handle(), ranks.data(), ranks.size(), &sub_group));
        return ProcessGroup(sub_group);
    }

    /// Splits this group by color, as MPI_Comm_split does. Every rank of the group calls this,
    /// after it has waited for all its works. The ranks with the same color, 0 or more, form a
    /// group, ordered by `key`, then by rank. Returns none for a negative color. On nccl this is
    /// ncclCommSplit: a peer that is lost or late during the call ends this group too.
    std::optional<ProcessGroup> split(int color, int key = 0) const {
        ddprun_group* part = nullptr;
        throw_if(ddprun_group_split(handle(), color, key, &part));
        if (!part) return std::nullopt;
        return ProcessGroup(part);
    }

    /// Ends the group at once on this rank; calls in flight fail here and on the peers.
    void abort() const { ddprun_group_abort(handle()); }

    /// The GPU that holds the buffers, by its CUDA device number; -1: they are in host memory.
    int device() const { return ddprun_group_device(handle()); }
    /// On nccl: each later call begins after the work that is in this cudaStream_t at the time of
    /// the call. With null, the default, a call begins at once, so its buffers must be ready.
    /// `Work::wait_in` is the other direction.
    void use_stream(void* stream) const { throw_if(ddprun_group_use_stream(handle(), stream)); }

    /// Calls for element types that are known only at run time.
    Work all_reduce_raw(void* data, std::size_t count, ElementType type, Op op) const;
    Work all_reduce_to_raw(
        const void* input, void* output, std::size_t count, ElementType type, Op op) const;
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
    Work all_gather_v_raw(
        const void* input,
        void* output,
        const std::vector<std::size_t>& counts,
        ElementType type) const;
    Work all_to_all_v_raw(
        const void* input,
        const std::vector<std::size_t>& input_counts,
        void* output,
        const std::vector<std::size_t>& output_counts,
        ElementType type) const;
    Work send_raw(const void* data, std::size_t count, ElementType type, int peer) const;
    Work recv_raw(void* data, std::size_t count, ElementType type, int peer) const;

private:
    static ProcessGroup create(
        const World& world, const ddprun_store* store, const Options& options) {
        const auto from = world.to_c();
        ddprun_group_options chosen{};
        chosen.size = sizeof chosen;
        chosen.backend = static_cast<ddprun_backend>(options.backend);
        // In C, zero means the default timeout; here it is an error.
        chosen.timeout_ms = options.timeout.count() > 0 ? options.timeout.count() : -1;
        ddprun_group* handle = nullptr;
        throw_if(ddprun_group_create(&from, store, &chosen, &handle));
        return ProcessGroup(handle);
    }

    static ddprun_type number(ElementType type) { return static_cast<ddprun_type>(type); }
    static ddprun_op number(Op op) { return static_cast<ddprun_op>(op); }

    const std::size_t* one_for_each(const std::vector<std::size_t>& counts) const {
        if (counts.size() != static_cast<std::size_t>(size()))
            throw UsageError(
                "counts of " + std::to_string(counts.size()) + " ranks: the group has " +
                std::to_string(size()));
        return counts.data();
    }

    template <class Call>
    static Work launched(const Call& call) {
        ddprun_work* work = nullptr;
        throw_if(call(&work));
        return Work(work);
    }

    std::shared_ptr<ddprun_group> handle_;
};

inline Work ProcessGroup::all_reduce_raw(
    void* data, std::size_t count, ElementType type, Op op) const {
    return launched([&](auto work) {
        return ddprun_all_reduce(handle(), data, count, number(type), number(op), work);
    });
}

inline Work ProcessGroup::all_reduce_to_raw(
    const void* input, void* output, std::size_t count, ElementType type, Op op) const {
    return launched([&](auto work) {
        return ddprun_all_reduce_to(handle(), input, output, count, number(type), number(op), work);
    });
}

inline Work ProcessGroup::reduce_raw(
    void* data, std::size_t count, ElementType type, int root, Op op) const {
    return launched([&](auto work) {
        return ddprun_reduce(handle(), data, count, number(type), root, number(op), work);
    });
}

inline Work ProcessGroup::broadcast_raw(
    void* data, std::size_t count, ElementType type, int root) const {
    return launched([&](auto work) {
        return ddprun_broadcast(handle(), data, count, number(type), root, work);
    });
}

inline Work ProcessGroup::all_gather_raw(
    const void* input, void* output, std::size_t count, ElementType type) const {
    return launched([&](auto work) {
        return ddprun_all_gather(handle(), input, output, count, number(type), work);
    });
}

inline Work ProcessGroup::reduce_scatter_raw(
    const void* input, void* output, std::size_t count, ElementType type, Op op) const {
    return launched([&](auto work) {
        return ddprun_reduce_scatter(
            handle(), input, output, count, number(type), number(op), work);
    });
}

inline Work ProcessGroup::gather_raw(
    const void* input, void* output, std::size_t count, ElementType type, int root) const {
    return launched([&](auto work) {
        return ddprun_gather(handle(), input, output, count, number(type), root, work);
    });
}

inline Work ProcessGroup::scatter_raw(
    const void* input, void* output, std::size_t count, ElementType type, int root) const {
    return launched([&](auto work) {
        return ddprun_scatter(handle(), input, output, count, number(type), root, work);
    });
}

inline Work ProcessGroup::all_to_all_raw(
    const void* input, void* output, std::size_t count, ElementType type) const {
    return launched([&](auto work) {
        return ddprun_all_to_all(handle(), input, output, count, number(type), work);
    });
}

inline Work ProcessGroup::all_gather_v_raw(
    const void* input,
    void* output,
    const std::vector<std::size_t>& counts,
    ElementType type) const {
    return launched([&](auto work) {
        return ddprun_all_gather_v(
            handle(), input, output, one_for_each(counts), number(type), work);
    });
}

inline Work ProcessGroup::all_to_all_v_raw(
    const void* input,
    const std::vector<std::size_t>& input_counts,
    void* output,
    const std::vector<std::size_t>& output_counts,
    ElementType type) const {
    return launched([&](auto work) {
        return ddprun_all_to_all_v(
            handle(),
            input,
            one_for_each(input_counts),
            output,
            one_for_each(output_counts),
            number(type),
            work);
    });
}

inline Work ProcessGroup::send_raw(
    const void* data, std::size_t count, ElementType type, int peer) const {
    return launched(
        [&](auto work) { return ddprun_send(handle(), data, count, number(type), peer, work); });
}

inline Work ProcessGroup::recv_raw(
    void* data, std::size_t count, ElementType type, int peer) const {
    return launched(
        [&](auto work) { return ddprun_recv(handle(), data, count, number(type), peer, work); });
}

}  // namespace ddprun
