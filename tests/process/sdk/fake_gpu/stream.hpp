// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

/// A simulated GPU and NCCL: libcuda.so.1 and libnccl.so.2 with the functions that the nccl backend
/// and the examples call. Device memory is the process's own. Streams are queues; a thread of the
/// driver processes them, and every query of an event does so too. Ranks exchange bytes through
/// files that they map. Kernels are the real .cu files, compiled for the CPU
/// (tests/support/cuda_on_cpu). Environment variables inject faults (driver.cpp, nccl.cpp).
namespace fake_gpu {

/// A piece of work: called repeatedly until it returns that it is done.
using Task = std::function<bool()>;

/// Makes the task each time it runs: once, or at each launch of the graph that captured it.
using Work = std::function<Task()>;

/// The function, beside CUDA's own, that libnccl gets from the driver by this name. Returns 0 or a
/// CUresult.
using Enqueue = int (*)(void* stream, const Work* work);
inline constexpr const char* enqueue_name = "fake_gpu_enqueue";

}  // namespace fake_gpu
