// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>

#include <cstddef>

/// NCCL's C interface, as far as it is used here. Declared here instead of included, so that every
/// build has the nccl backend and none needs NCCL: the library is opened at run time. These numbers
/// and layouts have not changed since NCCL 2.18; a test compares them with nccl.h where there is
/// one.
namespace ddprun::nccl::abi {

struct Communicator;  // opaque

struct UniqueId {
    char bytes[128];
};

enum class Result : int {
    success = 0,
    unhandled_cuda_error = 1,
    system_error = 2,
    internal_error = 3,
    invalid_argument = 4,
    invalid_usage = 5,
    remote_error = 6,
    in_progress = 7,
};

enum class Type : int {
    int8 = 0,
    uint8 = 1,
    int32 = 2,
    uint32 = 3,
    int64 = 4,
    uint64 = 5,
    float16 = 6,
    float32 = 7,
    float64 = 8,
    bfloat16 = 9,
    float8_e4m3 = 10,
    float8_e5m2 = 11,
};

enum class Op : int { sum = 0, product = 1, max = 2, min = 3, average = 4 };

/// The layout of 2.18. A newer library uses its defaults for the fields added since.
struct Config {
    static constexpr int unset = INT_MIN;

    std::size_t size = sizeof(Config);
    unsigned int magic = 0xcafebeef;
    unsigned int version = 21800;
    int blocking = 0;
    int cga_cluster_size = unset;
    int min_ctas = unset;
    int max_ctas = unset;
    const char* net_name = nullptr;
    int split_share = unset;
};

using Stream = void*;  ///< a cudaStream_t, which is a CUstream

/// The oldest version that has the layout above.
inline constexpr int oldest_version = 21800;
/// The first that reduces 8-bit floats.
inline constexpr int first_float8_version = 22400;
/// The first with ncclCommInitRankScalable.
inline constexpr int first_scalable_version = 22300;

}  // namespace ddprun::nccl::abi
