// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"

#include <variant>

namespace ddprun::nccl {

/// The devices of this process, among the devices that are visible to it.
struct DeviceChoice {
    int first = 0;
    int count = 1;  ///< consecutive numbers

    bool operator==(const DeviceChoice&) const = default;
};

/// `visible` is the number of devices in CUDA_VISIBLE_DEVICES. They are divided equally among the
/// ranks of a node: with one for each, the rank gets `cuda:LOCAL_RANK`; with two for each, the pair
/// with index LOCAL_RANK. When each rank sees one device only (--virtual-local-rank, or a
/// scheduler), the rank uses that one. `shares`: --share-gpu was given, and devices are assigned in
/// turn.
std::variant<DeviceChoice, groups::GroupError> choose_device(
    int visible, int local_rank, int local_world_size, bool shares);

}  // namespace ddprun::nccl
