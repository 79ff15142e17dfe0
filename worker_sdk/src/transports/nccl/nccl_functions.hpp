// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/library.hpp"
#include "worker_sdk/src/transports/nccl/nccl_abi.hpp"

#include <string>
#include <variant>

namespace ddprun::nccl {

/// The table through which NCCL is called. The library is never closed: its threads may still run.
struct NcclFunctions {
    using Result = abi::Result;
    using Comm = abi::Communicator*;

    Result (*get_version)(int*) = nullptr;
    Result (*get_unique_id)(abi::UniqueId*) = nullptr;
    const char* (*get_error_string)(Result) = nullptr;
    const char* (*get_last_error)(Comm) = nullptr;
    Result (*comm_init_rank_config)(Comm*, int world, abi::UniqueId, int rank, abi::Config*) =
        nullptr;
    Result (*comm_split)(Comm, int color, int key, Comm*, abi::Config*) = nullptr;
    Result (*comm_get_async_error)(Comm, Result*) = nullptr;
    Result (*comm_finalize)(Comm) = nullptr;
    Result (*comm_destroy)(Comm) = nullptr;
    Result (*comm_abort)(Comm) = nullptr;
    Result (*group_start)() = nullptr;
    Result (*group_end)() = nullptr;
    Result (*all_reduce)(const void*, void*, std::size_t, abi::Type, abi::Op, Comm, abi::Stream) =
        nullptr;
    Result (*reduce)(
        const void*, void*, std::size_t, abi::Type, abi::Op, int root, Comm, abi::Stream) = nullptr;
    Result (*broadcast)(const void*, void*, std::size_t, abi::Type, int root, Comm, abi::Stream) =
        nullptr;
    Result (*all_gather)(const void*, void*, std::size_t, abi::Type, Comm, abi::Stream) = nullptr;
    Result (*reduce_scatter)(
        const void*, void*, std::size_t, abi::Type, abi::Op, Comm, abi::Stream) = nullptr;
    Result (*send)(const void*, std::size_t, abi::Type, int peer, Comm, abi::Stream) = nullptr;
    Result (*recv)(void*, std::size_t, abi::Type, int peer, Comm, abi::Stream) = nullptr;

    // Null in older versions.
    Result (*comm_init_rank_scalable)(
        Comm*, int world, int rank, int ids, abi::UniqueId*, abi::Config*) = nullptr;
    Result (*mem_alloc)(void**, std::size_t) = nullptr;
    Result (*mem_free)(void*) = nullptr;
    Result (*comm_register)(Comm, void*, std::size_t, void** handle) = nullptr;
    Result (*comm_deregister)(Comm, void* handle) = nullptr;

    int version = 0;     ///< 22809
    std::string origin;  ///< where it was found

    /// Opens NCCL; the GroupError lists every place that was tried.
    static std::variant<NcclFunctions, groups::GroupError> open(const environment::Lookup& lookup);

    /// The result as text, with NCCL's last error: "remote process exited or there was a network
    /// error (ncclRemoteError: ...)".
    std::string describe(Result result, Comm comm = nullptr) const;
};

}  // namespace ddprun::nccl
