// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"
#include "ddprun/world.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace gpu_check {

/// The parts of gpu_worker, which scripts/gpu_check.sh runs on a rank. A part throws when a check
/// fails. Rank 0 prints figures, each on a line "NAME NUMBER ...".

/// Creates a group, adds up a few numbers and ends.
void life(const ddprun::World& world);

/// Sums of 4 bytes up to `most_bytes`; every element is checked.
void sums(const ddprun::World& world, std::size_t most_bytes);

/// The SDK's kernels on `count` elements, compared with the same arithmetic on the host.
void kernels(const ddprun::World& world, std::size_t count);

/// Every collective, type and operation, and messages, up to that many elements, compared with the
/// host; and a call that follows late work in its stream.
void calls(const ddprun::World& world, std::size_t most_count);

/// A Reducer's steps compared with those of a group on the host: plain, compressed, clipped,
/// captured.
void steps(const ddprun::World& world);

/// A sum without the SDK, on a blocking and then on a non-blocking communicator.
void sums_by_hand(const ddprun::World& world, std::size_t count);

/// `count` groups, one after the other, every other one aborted during an all_reduce: compares
/// descriptors, threads and the GPU's memory before, in the middle and afterwards.
void cycles(const ddprun::World& world, int count);

/// The last rank sends itself `signal` during an all_reduce of `bytes`. Measures when the others
/// notice, when its end is visible in the system, and when the others have a new group. `folder`: a
/// folder of this run, in which they join again. `timeout`: the group's.
void lose_one(
    const ddprun::World& world,
    int signal,
    std::size_t bytes,
    const std::string& folder,
    std::chrono::milliseconds timeout);

/// The same with NCCL alone: when NCCL itself notices, within `longest` or never, and how long its
/// abort takes.
void lose_one_by_hand(
    const ddprun::World& world,
    std::size_t bytes,
    const std::string& folder,
    std::chrono::seconds longest);

/// The SDK's all_reduce compared with NCCL's, 4 bytes to `most_bytes`, about `seconds` for each
/// size.
void bench(const ddprun::World& world, std::size_t most_bytes, double seconds);

ddprun::ProcessGroup nccl_group(
    const ddprun::World& world,
    const ddprun::Store& store,
    std::chrono::milliseconds timeout = std::chrono::minutes(1));

double milliseconds_since(std::chrono::steady_clock::time_point start);

}  // namespace gpu_check
