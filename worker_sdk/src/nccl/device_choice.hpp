// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/trouble.hpp"

#include <variant>

namespace ddprun::nccl {

/// Which of the devices that this process sees are its own.
struct DeviceChoice {
    int first = 0;
    int count = 1;  ///< they follow each other

    bool operator==(const DeviceChoice&) const = default;
};

/// `visible` is what CUDA_VISIBLE_DEVICES has left. Each rank of a node gets as many as go round:
/// with one for each, `cuda:LOCAL_RANK`; with two for each, LOCAL_RANK's two. Where each sees one
/// device only (--virtual-local-rank, or a scheduler), that is it. `shares`: --share-gpu was given,
/// and ranks take turns.
std::variant<DeviceChoice, groups::Trouble> choose_device(
    int visible, int local_rank, int local_world_size, bool shares);

}  // namespace ddprun::nccl
