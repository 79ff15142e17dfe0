// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

/// A GPU and an NCCL that are not there: libcuda.so.1 and libnccl.so.2 with the functions that the
/// nccl backend calls. Device memory is the process's own. Streams are queues that go on whenever
/// an event is asked for; ranks exchange bytes through files that they map. What is to go wrong
/// is said by variables (nccl.cpp).
namespace fake_gpu {

/// A piece of work: called again and again until it says that it is done.
using Task = std::function<bool()>;

/// What libnccl asks of the driver beside CUDA's own functions, by this name.
using Enqueue = void (*)(void* stream, Task* task);
inline constexpr const char* enqueue_name = "fake_gpu_enqueue";

}  // namespace fake_gpu
