// SPDX-License-Identifier: Apache-2.0
// Compiles only if worker_sdk/src/transports/nccl/nccl_abi.hpp agrees with nccl.h.
#include "worker_sdk/src/transports/nccl/nccl_abi.hpp"

#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace abi = ddprun::nccl::abi;

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
    return static_cast<int>(ours) == static_cast<int>(theirs);
}

static_assert(sizeof(abi::UniqueId) == sizeof(ncclUniqueId));
static_assert(alignof(abi::UniqueId) == alignof(ncclUniqueId));
static_assert(sizeof(abi::Result) == sizeof(ncclResult_t));
static_assert(sizeof(abi::Type) == sizeof(ncclDataType_t));
static_assert(sizeof(abi::Op) == sizeof(ncclRedOp_t));

static_assert(same(abi::Result::success, ncclSuccess));
static_assert(same(abi::Result::unhandled_cuda_error, ncclUnhandledCudaError));
static_assert(same(abi::Result::system_error, ncclSystemError));
static_assert(same(abi::Result::internal_error, ncclInternalError));
static_assert(same(abi::Result::invalid_argument, ncclInvalidArgument));
static_assert(same(abi::Result::invalid_usage, ncclInvalidUsage));
static_assert(same(abi::Result::remote_error, ncclRemoteError));
static_assert(same(abi::Result::in_progress, ncclInProgress));

static_assert(same(abi::Type::int8, ncclInt8));
static_assert(same(abi::Type::uint8, ncclUint8));
static_assert(same(abi::Type::int32, ncclInt32));
static_assert(same(abi::Type::uint32, ncclUint32));
static_assert(same(abi::Type::int64, ncclInt64));
static_assert(same(abi::Type::uint64, ncclUint64));
static_assert(same(abi::Type::float16, ncclFloat16));
static_assert(same(abi::Type::float32, ncclFloat32));
static_assert(same(abi::Type::float64, ncclFloat64));
static_assert(same(abi::Type::bfloat16, ncclBfloat16));
#if NCCL_VERSION_CODE >= 22400
static_assert(same(abi::Type::float8_e4m3, ncclFloat8e4m3));
static_assert(same(abi::Type::float8_e5m2, ncclFloat8e5m2));
#endif

static_assert(same(abi::Op::sum, ncclSum));
static_assert(same(abi::Op::product, ncclProd));
static_assert(same(abi::Op::max, ncclMax));
static_assert(same(abi::Op::min, ncclMin));
static_assert(same(abi::Op::average, ncclAvg));

// The SDK's struct is a prefix of NCCL's.
static_assert(sizeof(abi::Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(abi::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(abi::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(abi::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(abi::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(abi::Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(abi::Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(abi::Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(abi::Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(abi::Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(abi::Config::unset == NCCL_CONFIG_UNDEF_INT);
static_assert(abi::Config{}.magic == ncclConfig_t(NCCL_CONFIG_INITIALIZER).magic);
