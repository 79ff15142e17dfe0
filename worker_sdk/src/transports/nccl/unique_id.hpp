// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"
#include "worker_sdk/src/transports/nccl/nccl_abi.hpp"

#include <string>
#include <variant>

namespace ddprun::nccl {

/// "2.28.9" of 22809.
std::string version_text(int version);

/// The announcement of a communicator's root to the other ranks, through the store: 128 opaque
/// bytes, then the version of its NCCL and the size of its world, 4 bytes each, big-endian. NCCL
/// itself does not check that versions and sizes are equal: it would hang or give wrong numbers.
struct Announcement {
    abi::UniqueId id{};
    int version = 0;
    int world_size = 0;
};

std::string written(const Announcement& announcement);
std::variant<Announcement, groups::GroupError> read_announcement(const std::string& bytes);

/// Why this rank cannot join the communicator of `root`; none when it can.
groups::Outcome compare(
    const Announcement& theirs, int root, int own_version, int own_world_size, int own_rank);

/// The number of roots. A root connects the ranks to each other, over one socket each: one root for
/// every 128 ranks, where NCCL supports several.
int root_count(int world_size, int version);
/// The rank that is the i-th root.
int root_rank(int index, int root_count, int world_size);

/// The key of the i-th root's announcement, without the group's prefix.
std::string announcement_key(int index);

}  // namespace ddprun::nccl
