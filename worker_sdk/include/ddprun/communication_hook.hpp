// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>
#include <functional>

namespace ddprun {

/// A contiguous run of gradients that are reduced together. On nccl it is in GPU memory, and its
/// gradients are complete when the hook is called.
struct GradientBucket {
    std::size_t index = 0;
    float* data = nullptr;
    std::size_t count = 0;
    bool is_last = false;
};

/// Called in `Reducer::finish`: waits for the collectives that the hook launched and leaves the
/// average in the bucket.
using FinishBucket = std::function<void()>;

/// Replaces a Reducer's plain averaging of a bucket. Called when the bucket's gradients are
/// complete, in the same order on every rank: launches collectives and returns without waiting for
/// them. Runs on the thread that calls `mark_ready`.
using CommunicationHook =
    std::function<FinishBucket(const ProcessGroup& group, const GradientBucket& bucket)>;

/// Gradients are sent as 16 bits: half the bytes, with less precision. Each is divided by the world
/// size before it is rounded, so that sums do not overflow. bfloat16 has the range of float and 8
/// bits of precision; float16 has 11 bits and cannot represent values below 6e-8 or above 65504.
/// Each reducer needs its own hook.
CommunicationHook compress_to_bfloat16();
CommunicationHook compress_to_float16();

}  // namespace ddprun
