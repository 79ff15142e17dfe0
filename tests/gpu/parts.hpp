// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"
#include "ddprun/world.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace gpu_check {

/// What scripts/gpu_check.sh asks of a rank: each a part of the program gpu_worker, which ends with
/// an exception when something is not as it should be. Rank 0 says figures, "NAME NUMBER ..." in a
/// line each.

/// A group is made, adds up a few numbers and ends.
void life(const ddprun::World& world);

/// Sums of 4 bytes up to `most_bytes`, each element looked at.
void sums(const ddprun::World& world, std::size_t most_bytes);

/// The SDK's kernels on so many elements, beside the same arithmetic on the host.
void kernels(const ddprun::World& world, std::size_t count);

/// Every collective, type and operation, and messages, up to that many elements, beside the same on
/// the host; and a call behind late work in its stream.
void calls(const ddprun::World& world, std::size_t most_count);

/// A Reducer's steps beside those of a group on the host: plain, compressed, clipped, captured.
void steps(const ddprun::World& world);

/// A sum without the SDK, on a blocking and then on a non-blocking communicator.
void sums_by_hand(const ddprun::World& world, std::size_t count);

/// `count` groups, one after the other, every other one aborted in mid all_reduce: descriptors,
/// threads and the GPU's memory before, in the middle and after.
void cycles(const ddprun::World& world, int count);

/// The last rank sends itself `signal` in mid all_reduce of `bytes`: when the others
/// know, when its end is visible in the system, and when those have a new group. `folder`: of this
/// run, where they join again. `timeout`: the group's.
void lose_one(
    const ddprun::World& world,
    int signal,
    std::size_t bytes,
    const std::string& folder,
    std::chrono::milliseconds timeout);

/// The same with NCCL by hand: when NCCL itself notices, in `longest` or never, and how long its
/// abort takes.
void lose_one_by_hand(
    const ddprun::World& world,
    std::size_t bytes,
    const std::string& folder,
    std::chrono::seconds longest);

/// The SDK's all_reduce beside NCCL's, 4 bytes to `most_bytes`, about `seconds` for each size.
void bench(const ddprun::World& world, std::size_t most_bytes, double seconds);

ddprun::ProcessGroup nccl_group(
    const ddprun::World& world,
    const ddprun::Store& store,
    std::chrono::milliseconds timeout = std::chrono::minutes(1));

double milliseconds_since(std::chrono::steady_clock::time_point start);

}  // namespace gpu_check
