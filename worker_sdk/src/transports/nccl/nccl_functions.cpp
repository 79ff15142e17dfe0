// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/nccl_functions.hpp"

#include "worker_sdk/src/transports/nccl/unique_id.hpp"

#include <utility>

namespace ddprun::nccl {

namespace {

using groups::GroupError;

void fill(NcclFunctions& table, Library& library) {
    library.require(table.get_version, "ncclGetVersion");
    library.require(table.get_unique_id, "ncclGetUniqueId");
    library.require(table.get_error_string, "ncclGetErrorString");
    library.require(table.get_last_error, "ncclGetLastError");
    library.require(table.comm_init_rank_config, "ncclCommInitRankConfig");
    library.require(table.comm_split, "ncclCommSplit");
    library.require(table.comm_get_async_error, "ncclCommGetAsyncError");
    library.require(table.comm_finalize, "ncclCommFinalize");
    library.require(table.comm_destroy, "ncclCommDestroy");
    library.require(table.comm_abort, "ncclCommAbort");
    library.require(table.group_start, "ncclGroupStart");
    library.require(table.group_end, "ncclGroupEnd");
    library.require(table.all_reduce, "ncclAllReduce");
    library.require(table.reduce, "ncclReduce");
    library.require(table.broadcast, "ncclBroadcast");
    library.require(table.all_gather, "ncclAllGather");
    library.require(table.reduce_scatter, "ncclReduceScatter");
    library.require(table.send, "ncclSend");
    library.require(table.recv, "ncclRecv");
    library.find(table.comm_init_rank_scalable, "ncclCommInitRankScalable");
    library.find(table.mem_alloc, "ncclMemAlloc");
    library.find(table.mem_free, "ncclMemFree");
    library.find(table.comm_register, "ncclCommRegister");
    library.find(table.comm_deregister, "ncclCommDeregister");
}

const char* name_of(abi::Result result) {
    switch (result) {
        case abi::Result::success: return "ncclSuccess";
        case abi::Result::unhandled_cuda_error: return "ncclUnhandledCudaError";
        case abi::Result::system_error: return "ncclSystemError";
        case abi::Result::internal_error: return "ncclInternalError";
        case abi::Result::invalid_argument: return "ncclInvalidArgument";
        case abi::Result::invalid_usage: return "ncclInvalidUsage";
        case abi::Result::remote_error: return "ncclRemoteError";
        case abi::Result::in_progress: return "ncclInProgress";
    }
    return "a result of a newer NCCL";
}

GroupError too_old(const Library& library, const std::string& what) {
    return {
        GroupError::Kind::usage,
        library.path() + " " + what + "; the nccl backend needs NCCL " +
            version_text(abi::oldest_version) + " or newer (DDPRUN_NCCL=PATH names another)"};
}

}  // namespace

std::variant<NcclFunctions, GroupError> NcclFunctions::open(const environment::Lookup& lookup) {
    auto opened = Library::open(
        "NCCL (PyPI: nvidia-nccl-cu13; DDPRUN_NCCL=PATH names a file)", nccl_places(lookup));
    if (const auto* error = std::get_if<GroupError>(&opened)) return *error;
    auto& library = std::get<Library>(opened);
    NcclFunctions table;
    fill(table, library);
    if (!library.missing().empty()) return too_old(library, "lacks " + library.missing());
    if (table.get_version(&table.version) != Result::success || table.version < abi::oldest_version)
        return too_old(library, "is version " + version_text(table.version));
    table.origin = library.path();
    return table;
}

std::string NcclFunctions::describe(Result result, Comm comm) const {
    const char* words = get_error_string(result);
    std::string text = std::string{words ? words : "NCCL failed"} + " (" + name_of(result);
    const char* last = get_last_error(comm);
    if (last && *last) text += std::string{": "} + last;
    while (text.back() == '\n' || text.back() == ' ')
        text.pop_back();
    return text + ")";
}

}  // namespace ddprun::nccl
