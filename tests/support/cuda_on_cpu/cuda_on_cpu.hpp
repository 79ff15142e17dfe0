// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUDA's keywords for the host's compiler, so that a .cu file has the same meaning as for nvcc.
// Textures, cooperative groups, clusters and tensor cores are not supported.

#include "tests/support/cuda_on_cpu/kernel.hpp"
#include "tests/support/cuda_on_cpu/math.hpp"
#include "tests/support/cuda_on_cpu/vectors.hpp"
#include "tests/support/cuda_on_cpu/warp.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __managed__ static
// Shared memory of a block: blocks of one launch run one after the other on one thread.
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
